package reconciler

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/validate"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// TestReferencesFollowChanges: what is said of objects that are held against each
// other is the same whether a tree is judged after others or from nothing, by
// file, line and column too.
func TestReferencesFollowChanges(t *testing.T) {
	web := func(label, image string) string {
		return `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: ` + label + `}}
  template:
    metadata: {labels: {app: ` + label + `}}
    spec: {containers: [{name: c, image: "` + image + `", ports: [{name: http, containerPort: 80}]}]}
`
	}
	service := func(port string) string {
		return "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\nspec: {selector: {app: web}, ports: [{name: p, port: 80, targetPort: " + port + "}]}\n"
	}
	lost := "apiVersion: v1\nkind: Service\nmetadata: {name: lost, namespace: shop}\nspec: {selector: {app: nobody}, ports: [{port: 80}]}\n"
	job := "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, namespace: shop}\nspec: {template: {metadata: {labels: {app: j}}, spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}\n"
	reads := func(key string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: r, namespace: shop}\nspec: {containers: [{name: c, image: i, env: [{name: E, valueFrom: {configMapKeyRef: {name: conf, key: " + key + "}}}]}]}\n"
	}
	conf := func(keys string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf, namespace: shop}\ndata: {" + keys + "}\n"
	}
	e := newEvaluator()
	for _, tt := range []struct {
		what string
		tree memTree
		n    int // of findings
	}{
		{"all is well", memTree{"d.yaml": web("web", "i:1"), "s.yaml": service("http")}, 0},
		{"another image", memTree{"d.yaml": web("web", "i:2"), "s.yaml": service("http")}, 0},
		{"another label", memTree{"d.yaml": web("shop", "i:2"), "s.yaml": service("http")}, 1},
		{"the Service moves down", memTree{"d.yaml": web("shop", "i:2"), "s.yaml": "# why\n\n" + service("http")}, 1},
		{"another image, and one is suspect elsewhere", memTree{"d.yaml": web("shop", "i:3"), "s.yaml": "# why\n\n" + service("http")}, 1},
		{"mended", memTree{"d.yaml": web("web", "i:3"), "s.yaml": service("http")}, 0},
		{"a port that there is not", memTree{"d.yaml": web("web", "i:3"), "s.yaml": service("https")}, 1},
		{"one more", memTree{"d.yaml": web("web", "i:3"), "s.yaml": service("https"), "l.yaml": lost}, 2},
		{"into one file", memTree{"d.yaml": web("web", "i:3"), "s.yaml": lost + "---\n" + service("https")}, 2},
		{"a Service goes", memTree{"d.yaml": web("web", "i:3"), "s.yaml": lost}, 1},
		{"nothing is selected", memTree{"a.yaml": web("web", "i:1"), "b.yaml": job, "l.yaml": lost}, 1},
		{"objects change places", memTree{"a.yaml": job, "b.yaml": web("web", "i:1"), "l.yaml": lost}, 1},
		{"a key is read", memTree{"c.yaml": conf("a: b"), "r.yaml": reads("a")}, 0},
		{"the key has another name", memTree{"c.yaml": conf("aa: b"), "r.yaml": reads("a")}, 1},
		{"another one is read", memTree{"c.yaml": conf("aa: b"), "r.yaml": reads("b")}, 1},
		{"both follow", memTree{"c.yaml": conf("aa: b, c: d"), "r.yaml": reads("c")}, 0},
		{"the ConfigMap moves", memTree{"other.yaml": conf("aa: b"), "r.yaml": reads("c")}, 1},
		{"it goes", memTree{"r.yaml": reads("c")}, 1},
		{"one that a program fills", memTree{"c.yaml": conf(""), "r.yaml": reads("c")}, 0},
	} {
		said := func(e *evaluator) []v1alpha1.Finding {
			ev, err := e.evaluate(t.Context(), tt.tree, nil, render.Options{Open: Mask})
			if err != nil {
				t.Fatal(err)
			}
			refused, warned := ev.speaksOf(nil)
			return validate.Sort(append(refused, warned...))
		}
		after, alone := said(e), said(newEvaluator())
		if diff := cmp.Diff(alone, after); diff != "" || len(alone) != tt.n {
			t.Errorf("%s: %d findings, want %d; after others it says otherwise:\n%s", tt.what, len(alone), tt.n, diff)
		}
	}
}
