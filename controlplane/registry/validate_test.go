package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/defaults"
	"github.com/writ-os/writ/schema/v1alpha1"
	"github.com/writ-os/writ/schema/validate"
)

// component is a user who is a part of this process.
type component struct{ user.DefaultInfo }

func (*component) InProcess() {}

// asComponent returns a context of a part of this process.
func asComponent(name string) context.Context {
	return request.WithUser(context.Background(), &component{user.DefaultInfo{Name: name}})
}

// TestOnlyPartsAreTrusted: what a user is called, as by impersonation, opens no
// way around the schema.
func TestOnlyPartsAreTrusted(t *testing.T) {
	g, _ := open(t, t.TempDir())
	for _, tt := range []struct {
		name    string
		ctx     context.Context
		refused bool
	}{
		{"part", asComponent(user.KubeControllerManager), false},
		{"reconciler", asComponent("system:writ:reconciler"), true},
		{"namesake", as(user.KubeControllerManager, user.SystemPrivilegedGroup), true},
		{"nobody", context.Background(), true},
		{"person", person, true},
	} {
		r := &v1alpha1.Repository{ObjectMeta: metav1.ObjectMeta{Name: tt.name}, Spec: v1alpha1.RepositorySpec{URL: "gopher://x"}}
		_, err := g.Create(tt.ctx, schema.ResourceFor[*v1alpha1.Repository](), r, client.WriteOptions{})
		if apierrors.IsInvalid(err) != tt.refused || !tt.refused && err != nil {
			t.Errorf("%s: %v, refused must be %v", tt.name, err, tt.refused)
		}
	}
}

// TestFindingError: the API puts the path before the text, once.
func TestFindingError(t *testing.T) {
	data := []byte(`{"spec":{"ports":[{"port":0}]}}`)
	for _, tt := range []struct {
		f    v1alpha1.Finding
		want string
	}{
		{v1alpha1.Finding{Field: "spec.ports[0].port", Message: "spec.ports[0].port: must be at least 1"}, "spec.ports[0].port: Invalid value: 0: must be at least 1"},
		{v1alpha1.Finding{Field: "spec.ports[0].port", Message: "must be at least 1"}, "spec.ports[0].port: Invalid value: 0: must be at least 1"},
		{v1alpha1.Finding{Rule: "Required", Field: "spec.type", Message: "spec.type: is missing", Hint: "say one"}, "spec.type: Required value: is missing (say one)"},
	} {
		if got := findingError(tt.f, data).Error(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
	g, _ := open(t, t.TempDir())
	p := pod("p")
	p.Spec.RestartPolicy = "Sometimes"
	_, err := g.Create(person, pods, p, client.WriteOptions{})
	if err == nil || strings.Count(err.Error(), "spec.restartPolicy") != 1 {
		t.Errorf("the path must be named once: %v", err)
	}
}

// TestContentIsWhatJSONSays: what the schema is asked about is what the JSON of
// an object holds, without managedFields, for random objects of every kind, and
// what it accepts so is accepted as JSON too.
func TestContentIsWhatJSONSays(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	accepted := 0
	check := func(r *schema.Resource, o schema.Object) {
		t.Helper()
		got, ok := decoded(o)
		if !ok {
			return
		}
		bare := o.DeepCopyObject().(schema.Object)
		bare.SetManagedFields(nil)
		data := text(t, bare)
		if got := text(t, got); !equalJSON(t, got, data) {
			t.Fatalf("%v:\n%s\nwant\n%s", r, got, data)
		}
		whole := text(t, o)
		if !validate.Accepts(r, got) {
			return
		}
		accepted++
		for _, f := range validate.JSON(r, whole) {
			if !strings.HasPrefix(f.Field, "metadata.managedFields") {
				t.Fatalf("%v: %v\n%s", r, f, whole)
			}
		}
	}
	for n, r := range schema.Resources {
		for round := range 12 {
			o := r.New()
			if _, ok := o.(*unstructured.Unstructured); ok {
				continue
			}
			x := &filler{rnd: rand.New(rand.NewPCG(seed, uint64(n*100+round))), values: rand.New(rand.NewPCG(seed, 1))}
			x.fill(reflect.ValueOf(o).Elem(), 0)
			o.GetObjectKind().SetGroupVersionKind(r.GVK())
			check(r, o)
		}
	}
	for _, m := range manifests(t, 0) {
		u := &unstructured.Unstructured{Object: m}
		r := schema.ByGVK(u.GroupVersionKind())
		if r == nil {
			continue
		}
		o, err := versions{r, nil}.typed(u)
		if err != nil {
			t.Fatal(err)
		}
		defaults.Apply(o)
		check(r, o)
	}
	if accepted < 50 {
		t.Errorf("%d objects were accepted: nothing was tested", accepted)
	}
}

// equalJSON compares without fields that are null.
func equalJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	read := func(data []byte) any {
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		return withoutNull(v)
	}
	return reflect.DeepEqual(read(a), read(b))
}

func withoutNull(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if v[k] = withoutNull(e); e == nil {
				delete(v, k)
			}
		}
	case []any:
		for i, e := range v {
			v[i] = withoutNull(e)
		}
	}
	return v
}
