package registry

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind"
)

// TestScripts runs testdata/*.txtar. A file is a story of one cluster; each
// part is a write or what is expected of the write before it:
//
//	create RESOURCE                     the object; RESOURCE/SUB KEY posts to a subresource
//	update RESOURCE[/SUB]               the new state, over the stored resourceVersion
//	patch TYPE RESOURCE[/SUB] KEY       TYPE is json, merge or strategic
//	apply MANAGER[!] RESOURCE KEY       server-side apply, ! by force
//	delete RESOURCE KEY [GRACE|orphan|foreground]
//	get RESOURCE[/SUB] KEY
//	as USER                             who writes from here on
//	error                               the write is refused with this text ("*" at its end: anything)
//	has                                 fields of the result; "*" is any value
//	lacks                               paths that the result does not have, one a line
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			g, _ := open(t, t.TempDir())
			runScript(t, g, a)
		})
	}
}

func runScript(t *testing.T, g *Registry, a *txtar.Archive) {
	s := &script{t: t, g: g, user: "jane"}
	for i, f := range a.Files {
		verb := strings.Fields(f.Name)[0]
		if slices.Contains([]string{"error", "has", "lacks", "as"}, verb) {
			s.expect(f.Name, f.Data)
			continue
		}
		s.step = fmt.Sprintf("part %d, %s", i+1, f.Name)
		s.object, s.err = s.write(strings.Fields(f.Name), f.Data)
		if next := i + 1; s.err != nil && (next == len(a.Files) || a.Files[next].Name != "error") {
			t.Fatalf("%s: %v", s.step, s.err)
		}
	}
}

type script struct {
	t      *testing.T
	g      *Registry
	user   string
	step   string
	object schema.Object
	err    error
}

func (s *script) write(args []string, data []byte) (schema.Object, error) {
	ctx := as(s.user)
	w := client.WriteOptions{FieldManager: "script"}
	at := 1
	if args[0] == "patch" || args[0] == "apply" {
		at = 2
	}
	name, sub, _ := strings.Cut(args[at], "/")
	w.Subresource = sub
	r := s.resource(name)
	var k schema.Key
	if len(args) > at+1 {
		k = schema.ParseKey(args[at+1])
	}
	switch args[0] {
	case "create":
		w.Key = k
		return s.g.Create(ctx, r, s.decode(r, sub, data), w)
	case "update":
		o := s.decode(r, sub, data)
		if old, err := s.g.Get(ctx, r, schema.KeyOf(o)); err == nil && o.GetResourceVersion() == "" {
			o.SetResourceVersion(old.GetResourceVersion())
		}
		return s.g.Update(ctx, r, o, w)
	case "patch":
		j, err := yaml.YAMLToJSON(data)
		if err != nil {
			s.t.Fatal(err)
		}
		kind := map[string]types.PatchType{
			"json": types.JSONPatchType, "merge": types.MergePatchType, "strategic": types.StrategicMergePatchType,
		}[args[1]]
		return s.g.Patch(ctx, r, k, kind, j, w)
	case "apply":
		w.FieldManager, w.Force = strings.TrimSuffix(args[1], "!"), strings.HasSuffix(args[1], "!")
		return s.g.Patch(ctx, r, k, types.ApplyPatchType, data, w)
	case "delete":
		return s.delete(r, k, args[at+2:])
	case "get":
		if sub != "" {
			return s.g.GetSubresource(ctx, r, k, sub)
		}
		return s.g.Get(ctx, r, k)
	}
	s.t.Fatalf("unknown step %q", args[0])
	return nil, nil
}

func (s *script) delete(r *schema.Resource, k schema.Key, how []string) (schema.Object, error) {
	d := client.DeleteOptions{}
	for _, h := range how {
		switch h {
		case "orphan":
			d.Propagation = metav1.DeletePropagationOrphan
		case "foreground":
			d.Propagation = metav1.DeletePropagationForeground
		default:
			n, err := strconv.ParseInt(h, 10, 64)
			if err != nil {
				s.t.Fatal(err)
			}
			d.GracePeriodSeconds = &n
		}
	}
	o, gone, err := s.g.DeleteObject(as(s.user), r, k, d)
	if o != nil && gone {
		o = o.DeepCopyObject().(schema.Object)
		metav1.SetMetaDataAnnotation(objectMeta(o), "gone", "true")
	}
	return o, err
}

// objectMeta finds the metadata of any object.
func objectMeta(o schema.Object) *metav1.ObjectMeta {
	return kind.Part(o, "ObjectMeta").Addr().Interface().(*metav1.ObjectMeta)
}

func (s *script) resource(plural string) *schema.Resource {
	for _, r := range schema.Resources {
		if r.Plural == plural {
			return r
		}
	}
	s.t.Fatalf("no resource %q", plural)
	return nil
}

func (s *script) decode(r *schema.Resource, sub string, data []byte) schema.Object {
	s.t.Helper()
	var o schema.Object
	switch sub {
	case "binding":
		o = &corev1.Binding{}
	case "scale":
		o = &autoscalingv1.Scale{}
	default:
		var err error
		if o, err = schema.Decode(r, schema.YAML, data, true); err != nil {
			s.t.Fatalf("%s: %v", s.step, err)
		}
		return o
	}
	if err := yaml.UnmarshalStrict(data, o); err != nil {
		s.t.Fatalf("%s: %v", s.step, err)
	}
	return o
}

func (s *script) expect(what string, data []byte) {
	s.t.Helper()
	if user, ok := strings.CutPrefix(what, "as "); ok {
		s.user = user
		return
	}
	if what == "error" {
		if s.err == nil {
			s.t.Fatalf("%s: was not refused", s.step)
		}
		got, want := s.err.Error(), strings.TrimSpace(string(data))
		if start, open := strings.CutSuffix(want, "*"); open && strings.HasPrefix(got, start) {
			return // a text that ends in something random
		}
		if got != want {
			s.t.Errorf("%s:\n got %s\nwant %s", s.step, got, want)
		}
		return
	}
	content := s.content()
	if what == "lacks" {
		for path := range strings.FieldsSeq(string(data)) {
			if v, ok := lookup(content, path); ok {
				s.t.Errorf("%s: result has %s: %v", s.step, path, v)
			}
		}
		return
	}
	var want any
	if err := yaml.Unmarshal(data, &want); err != nil {
		s.t.Fatal(err)
	}
	for _, d := range subset("", want, content) {
		s.t.Errorf("%s: %s", s.step, d)
	}
}

// content is the result as JSON has it. Owners that wrote in different seconds
// come as those of one second do: by operation and manager.
func (s *script) content() any {
	o := s.object.DeepCopyObject().(schema.Object)
	owners := o.GetManagedFields()
	passed := func(e metav1.ManagedFieldsEntry) bool { return !e.Time.Equal(owners[0].Time) }
	if slices.ContainsFunc(owners, passed) {
		slices.SortStableFunc(owners, func(a, b metav1.ManagedFieldsEntry) int {
			return cmp.Or(cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Manager, b.Manager))
		})
	}
	o.SetManagedFields(owners)
	b, err := json.Marshal(o)
	if err != nil {
		s.t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		s.t.Fatal(err)
	}
	return v
}

// subset says where got does not have what want has.
func subset(at string, want, got any) []string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return []string{fmt.Sprintf("%s is %v, want %v", at, got, want)}
		}
		var out []string
		for k, v := range w {
			out = append(out, subset(at+"."+k, v, g[k])...)
		}
		return out
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return []string{fmt.Sprintf("%s is %v, want %v", at, got, want)}
		}
		var out []string
		for i := range w {
			out = append(out, subset(fmt.Sprintf("%s[%d]", at, i), w[i], g[i])...)
		}
		return out
	}
	if want == "*" && got != nil || reflect.DeepEqual(want, got) {
		return nil
	}
	return []string{fmt.Sprintf("%s is %v, want %v", at, got, want)}
}

func lookup(v any, path string) (any, bool) {
	for name := range strings.SplitSeq(path, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		if v, ok = m[name]; !ok {
			return nil, false
		}
	}
	return v, true
}
