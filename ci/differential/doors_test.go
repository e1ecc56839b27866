package differential

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/writ-os/writ/ci/differential/exchange"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/validate"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// apart are the creations of which the two doors are not of one opinion, and why.
var apart = map[string]string{
	"core/network policy": "nothing honours it", "kind-networking.k8s.io/v1 networkpolicies: create": "nothing honours it",
	"kind-networking.k8s.io/v1 networkpolicies: nothing but a name": "nothing honours it",
	"fieldvalidation/warn create":                                   "of unknown fields the API warns", "fieldvalidation/default create": "of unknown fields the API warns",
	"fieldvalidation/ignore create": "unknown fields are ignored when asked", "fieldvalidation/ignore drops the wrong case": "unknown fields are ignored when asked",
	"fieldvalidation/warnings of a pod":                                  "what the API warns of, no commit could apply",
	"kind-core/v1 events: bad name":                                      "the definition names it",
	"kind-resource.k8s.io/v1 deviceclasses: nothing but a name":          "a declared object has a spec",
	"kind-resource.k8s.io/v1 resourceclaims: nothing but a name":         "a declared object has a spec",
	"kind-resource.k8s.io/v1 resourceclaimtemplates: nothing but a name": "a declared object has a spec",
	"kind-storage.k8s.io/v1 csidrivers: nothing but a name":              "a declared object has a spec",
	"kind-storage.k8s.io/v1 csinodes: nothing but a name":                "a declared object has a spec",

	"errors/dryRun nonsense": "of the request", "errors/fieldValidation nonsense": "of the request",
	"errors/fieldManager too long": "of the request", "errors/fieldManager unprintable": "of the request",
	"kind-core/v1 services: create again": "of other objects", "services/IP that is taken": "of other objects",
	"services/IP out of range": "of the cluster", "policies/bad level": "of admission",
	"services/node port taken": "of other objects", "services/node port out of range": "of the cluster",
}

// TestDoors sends what the conversations create through the other door: Git's
// check must refuse what the API refuses as invalid, and nothing that it takes.
// A cause of which the definition in CUE says something already, near the same
// field, is not said twice; so the fields are compared where one error stands
// alone.
func TestDoors(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no conversations: %v", err)
	}
	refused, taken := 0, 0
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := exchange.Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range f.Exchanges {
			text, namespace, ok := created(e)
			if !ok {
				continue
			}
			found, ok := checked(t, text, namespace)
			if !ok {
				continue
			}
			status, body, _ := strings.Cut(e.Response, "\n")
			if id := strings.TrimSuffix(filepath.Base(path), ".txtar") + "/" + e.Name; apart[id] != "" {
				continue
			}
			switch strings.Fields(status)[0] {
			case "201":
				taken++
				for _, f := range found {
					t.Errorf("%s: %s: the API takes it, and Git says: %s %s: %s", filepath.Base(path), e.Name, f.Rule, f.Field, f.Message)
				}
			case "422":
				refused++
				want := causes(t, body)
				if len(found) == 0 || len(want) == 1 && !says(found, want[0]) {
					t.Errorf("%s: %s: the API refuses it: %v, and Git says: %v", filepath.Base(path), e.Name, want, short(found))
				}
			}
		}
	}
	t.Logf("%d taken, %d refused", taken, refused)
}

// created is the manifest that an exchange creates, and in which namespace.
func created(e *exchange.Exchange) (text, namespace string, ok bool) {
	path, _, _ := strings.Cut(e.Request.Path, "?")
	steps := strings.Split(strings.Trim(path, "/"), "/")
	if e.Request.Method != "POST" || len(steps) < 3 {
		return "", "", false
	}
	steps = steps[2:]
	if strings.HasPrefix(path, "/apis/") {
		steps = steps[1:]
	}
	if len(steps) == 3 && steps[0] == "namespaces" {
		namespace, steps = steps[1], steps[2:]
	}
	return string(e.Request.Body), namespace, len(steps) == 1
}

type oneFile string

func (o oneFile) Walk() iter.Seq2[render.File, error] {
	return func(yield func(render.File, error) bool) {
		yield(render.File{Path: "a.yaml", Blob: string(o), Size: int64(len(o)),
			Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(string(o))), nil }}, nil)
	}
}

// checked is what Git says of a manifest; not ok when it is none to Git.
func checked(t *testing.T, text, namespace string) ([]v1alpha1.Finding, bool) {
	var o map[string]any
	if yaml.Unmarshal([]byte(text), &o) != nil || strings.Contains(text, "${") {
		return nil, false
	}
	meta, _ := o["metadata"].(map[string]any)
	if meta == nil || meta["name"] == nil {
		return nil, false
	}
	if namespace != "" {
		meta["namespace"] = namespace
	}
	data, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	units, _, err := render.Scan(oneFile(data))
	if err != nil || len(units) == 0 {
		return nil, false
	}
	out, err := render.Render(context.Background(), &units[0])
	if err != nil || len(out.Findings) > 0 || len(out.Manifests) != 1 || out.Manifests[0].Resource.Custom != nil {
		return nil, false
	}
	m := &out.Manifests[0]
	found := validate.Manifest(m)
	refused, _ := validate.Typed(m, validate.Decode(m), found)
	return append(found, refused...), true
}

// causes are those of a recorded answer.
func causes(t *testing.T, body string) []metav1.StatusCause {
	var s metav1.Status
	if err := yaml.Unmarshal([]byte(body), &s); err != nil {
		t.Fatal(err)
	}
	if s.Details == nil {
		return nil
	}
	return s.Details.Causes
}

// says looks for a finding about the field of a cause, or one around it.
func says(found []v1alpha1.Finding, c metav1.StatusCause) bool {
	for _, f := range found {
		if strings.HasPrefix(f.Field, c.Field) || strings.HasPrefix(c.Field, f.Field) {
			return true
		}
	}
	return false
}

func short(found []v1alpha1.Finding) (out []string) {
	for _, f := range found {
		out = append(out, fmt.Sprintf("%s %s: %s", f.Rule, f.Field, f.Message))
	}
	return out
}
