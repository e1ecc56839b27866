package render

import (
	"fmt"
	"strings"
	"testing"
)

// bigChart is a release of a chart with one template of so many objects of 40
// lines each.
func bigChart(objects int) memTree {
	var b strings.Builder
	for i := range objects {
		fmt.Fprintf(&b, "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: cm-%d\n  labels:\n    {{- toYaml .Values.labels | nindent 4 }}\ndata:\n", i)
		for k := range 32 {
			fmt.Fprintf(&b, "  key%d: \"{{ .Values.replicaCount }}-x\"\n", k)
		}
	}
	return memTree{
		"release.yaml":              "apiVersion: writ.dev/v1alpha1\nkind: HelmRelease\nmetadata: {name: big, namespace: big}\nspec: {chart: ./chart}\n",
		"chart/Chart.yaml":          "apiVersion: v2\nname: big\nversion: 1.0.0\n",
		"chart/values.yaml":         "replicaCount: 2\nlabels: {a: b}\n",
		"chart/templates/many.yaml": b.String(),
	}
}

// BenchmarkChart renders charts of 4,000 and 16,000 lines: four times the lines
// take four times as long.
func BenchmarkChart(b *testing.B) {
	for _, objects := range []int{100, 400} {
		b.Run(fmt.Sprintf("lines=%d", 40*objects), func(b *testing.B) {
			tree := bigChart(objects)
			for b.Loop() {
				units, _, err := Scan(tree)
				if err != nil {
					b.Fatal(err)
				}
				r, err := Render(b.Context(), &units[0])
				if err != nil || len(r.Findings) > 0 || len(r.Manifests) != objects {
					b.Fatal(err, r.Findings, len(r.Manifests))
				}
			}
		})
	}
}

// TestManyReferences: a template with very many references, and one that goes
// through a long list, are rendered within the time that a unit has.
func TestManyReferences(t *testing.T) {
	var values strings.Builder
	for i := range 2_000 {
		fmt.Fprintf(&values, "- v%d\n", i)
	}
	tree := memTree{
		"release.yaml":              "apiVersion: writ.dev/v1alpha1\nkind: HelmRelease\nmetadata: {name: big}\nspec: {chart: ./chart}\n",
		"chart/Chart.yaml":          "apiVersion: v2\nname: big\nversion: 1.0.0\n",
		"chart/values.yaml":         "a: x\nlist:\n" + values.String(),
		"chart/templates/wide.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: wide}\ndata: {k: \"{{ .Values.a }}\"" + strings.Repeat("{{ with .Values.none }}{{ . }}{{ end }}{{ range .Values.none }}{{ .Values.list }}{{ end }}", 2_000) + "}\n",
		"chart/templates/many.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: many}\ndata:\n{{ range $i, $v := .Values.list }}" + strings.Repeat("{{ with $v }}{{ end }}", 20) + "  k{{ $i }}: {{ $v }}\n{{ end }}",
	}
	units, _, err := Scan(tree)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Render(t.Context(), &units[0])
	if err != nil || len(r.Findings) > 0 || len(r.Manifests) != 2 {
		t.Fatal(err, r.Findings, len(r.Manifests))
	}
}
