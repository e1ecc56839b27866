package table

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/writ-os/writ/schema"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestRows prints the objects of testdata/*.txtar as kubectl would: each file
// is a list of objects, followed by the table that they make. The time is
// 2026-01-01T12:00:00Z.
func TestRows(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	ar, err := txtar.ParseFile("testdata/rows.txtar")
	if err != nil {
		t.Fatal(err)
	}
	got := &txtar.Archive{Comment: ar.Comment}
	for _, f := range ar.Files {
		if strings.HasSuffix(f.Name, ".table") {
			continue
		}
		rows := printed(t, f.Name, string(f.Data), now)
		got.Files = append(got.Files, f, txtar.File{Name: strings.TrimSuffix(f.Name, ".yaml") + ".table", Data: []byte(rows)})
	}
	if *update {
		if err := os.WriteFile("testdata/rows.txtar", txtar.Format(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(txtar.Format(ar)), string(txtar.Format(got))); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// printed makes the table of the objects in a YAML stream.
func printed(t *testing.T, name, data string, now time.Time) string {
	t.Helper()
	var out strings.Builder
	for i, doc := range strings.Split(data, "---\n") {
		var tm metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(doc), &tm); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r := schema.ByGVK(tm.GroupVersionKind())
		if r == nil {
			t.Fatalf("%s: no resource %s", name, tm.GroupVersionKind())
		}
		o, err := schema.Decode(r, schema.YAML, []byte(doc), true)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		tab, err := compile(r)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			fmt.Fprintln(&out, strings.Join(tab.Names(), " | "))
		}
		var cells []string
		for _, c := range tab.Cells(&Row{Object: o, Now: now}) {
			cells = append(cells, fmt.Sprint(c))
		}
		fmt.Fprintln(&out, strings.Join(cells, " | "))
	}
	return out.String()
}
