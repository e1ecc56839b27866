package validate

import (
	"context"
	"io"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// oneFile is a tree of one file.
type oneFile string

func (o oneFile) Walk() iter.Seq2[render.File, error] {
	return func(yield func(render.File, error) bool) {
		yield(render.File{Path: "a.yaml", Blob: string(o), Size: int64(len(o)),
			Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(string(o))), nil }}, nil)
	}
}

func manifests(t *testing.T, text string) []render.Manifest {
	t.Helper()
	units, _, err := render.Scan(oneFile(text))
	if err != nil {
		t.Fatal(err)
	}
	out, err := render.Render(context.Background(), &units[0])
	if err != nil || len(out.Findings) > 0 {
		t.Fatal(err, out.Findings)
	}
	return out.Manifests
}

func places(findings []v1alpha1.Finding) (out []string) {
	for _, f := range Sort(findings) {
		out = append(out, strings.Join([]string{f.Rule, f.Object, f.Field}, " "))
	}
	return out
}

// TestManifest: all that is wrong with one manifest is said, each once, with
// its object and its place.
func TestManifest(t *testing.T) {
	m := manifests(t, "apiVersion: v1\nkind: Service\nmetadata:\n  namespace: shop\n  labls: {}\nspec:\n  ports:\n  - port: 0\n")
	findings := Manifest(&m[0])
	got := strings.Join(places(findings), "\n")
	for _, want := range []string{"metadata.labls", "metadata.name", "spec.ports[0].port"} {
		if strings.Count(got, want) != 1 {
			t.Errorf("%s is said %d times in %s", want, strings.Count(got, want), got)
		}
	}
	for _, f := range findings {
		if f.File != "a.yaml" || f.Line == 0 || f.Object != "Service/shop/" {
			t.Errorf("no place: %+v", f)
		}
	}
}

func TestObjects(t *testing.T) {
	var heads []render.Head
	for _, m := range manifests(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: made}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: made}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: live}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: nowhere}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: kube-system}}
`) {
		heads = append(heads, m.Head)
	}
	got := places(Objects(heads, func(ns string) bool { return ns == "live" }))
	if diff := cmp.Diff([]string{"Duplicate ConfigMap/default/a ", "NoNamespace ConfigMap/nowhere/a metadata.namespace"}, got); diff != "" {
		t.Error(diff)
	}
	if got := places(Objects(heads, nil)); len(got) != 1 {
		t.Errorf("offline: %v", got)
	}
}
