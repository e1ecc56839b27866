package validate

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/writ-os/writ/schema/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files")

// TestFindings compares what is said of bad manifests with golden files.
func TestFindings(t *testing.T) {
	files, err := filepath.Glob("testdata/findings/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			in := a.Files[0]
			m := readManifest(t, in.Name, in.Data)
			found := Expr(m.resource, extract(t, in.Name, in.Data))
			got := render(found)
			if *update {
				a.Files = append(a.Files[:1], txtar.File{Name: "findings", Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if len(a.Files) < 2 || string(a.Files[1].Data) != got {
				t.Errorf("findings differ (run with -update):\n%s", got)
			}
			for _, f := range found {
				if f.File != in.Name || f.Line == 0 || f.Column == 0 || f.Field == "" || f.Rule == "" || !strings.HasPrefix(f.Message, f.Field) {
					t.Errorf("incomplete: %+v", f)
				}
			}
			sameWithoutPlaces(t, found, JSON(m.resource, m.json))
		})
	}
}

// TestFindingsAtOnce: the files of a commit, and the requests of many clients,
// are checked at once. CUE's values may not be shared; the race detector tells.
func TestFindingsAtOnce(t *testing.T) {
	files, err := filepath.Glob("testdata/findings/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	var all sync.WaitGroup
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		in := a.Files[0]
		m := readManifest(t, in.Name, in.Data)
		for range 4 {
			expr := extract(t, in.Name, in.Data)
			all.Go(func() {
				if got := render(Expr(m.resource, expr)); got != string(a.Files[1].Data) {
					t.Errorf("%s: findings differ:\n%s", file, got)
				}
			})
		}
	}
	all.Wait()
}

// sameWithoutPlaces wants JSON to say what Expr says, but for the places. Of
// lists of equal length, that the messages are the same is enough: the order is
// that of the places.
func sameWithoutPlaces(t *testing.T, expr, json []v1alpha1.Finding) {
	t.Helper()
	said := map[string]bool{}
	for _, f := range json {
		said[f.Message] = true
		if f.File != "" || f.Line != 0 || f.Column != 0 {
			t.Errorf("JSON gives a place: %+v", f)
		}
	}
	for _, f := range expr {
		// YAML knows more numbers and keys than JSON: 0644, no, 1.
		if !said[f.Message] && len(expr) != len(json) {
			t.Errorf("JSON does not say: %s", f.Message)
		}
	}
}

func render(fs []v1alpha1.Finding) string {
	var b strings.Builder
	for _, f := range fs {
		fmt.Fprintf(&b, "%s:%d:%d: %s [%s]", f.File, f.Line, f.Column, f.Message, f.Rule)
		if f.Hint != "" {
			fmt.Fprintf(&b, " (%s)", f.Hint)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// TestNotLiterals gives syntax that is more than YAML: it is evaluated first.
func TestNotLiterals(t *testing.T) {
	m := readManifest(t, "a.yaml", []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"))
	for src, want := range map[string]string{
		`{apiVersion: "v1", kind: "ConfigMap", metadata: name: "a" + "b"}`:            "",
		`{apiVersion: "v1", kind: "ConfigMap", metadata: name: "A" + "b"}`:            "metadata.name: must be a DNS name",
		`{apiVersion: "v1", kind: "ConfigMap", metadata: {name: "a", name: "a"}}`:     "metadata.name: is there twice",
		`{apiVersion: "v1", kind: "ConfigMap", metadata: name: string}`:               "incomplete value string",
		`{apiVersion: "v1", kind: "ConfigMap", metadata: name: "a", data: n: 0x10}`:   "data.n: must be a string, is an integer",
		`{let x = "a", apiVersion: "v1", kind: "ConfigMap", metadata: name: x, a: 1}`: "a: there is no such field",
	} {
		got := render(Expr(m.resource, parseCUE(t, src)))
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s:\n got %q\nwant %q", src, got, want)
		}
	}
}

func TestNotAnObject(t *testing.T) {
	m := corpus(t)[0]
	for src, want := range map[string]string{
		`{"apiVersion":`: "not JSON",
		`[]`:             "must be an object, is a list",
		`"text"`:         "must be an object, is a string",
		`null`:           "must be an object, is null",
		`{} {}`:          "more than one value",
		``:               "not JSON",
	} {
		got := render(JSON(m.resource, []byte(src)))
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", src, got, want)
		}
	}
}

// TestManyFindingsAreCut keeps a hostile object from filling a status.
func TestManyFindingsAreCut(t *testing.T) {
	m := corpus(t)[0]
	src := `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}`
	for i := range 1000 {
		src += fmt.Sprintf(`,"x%d":1`, i)
	}
	if n := len(JSON(m.resource, []byte(src+"}"))); n != maxFindings {
		t.Errorf("%d findings, want %d", n, maxFindings)
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"replica", "replicas", 1}, {"lables", "labels", 1}, {"imag", "image", 1}, {"kitten", "sitting", 3}} {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("distance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
	if h := DidYouMean("zzz", []string{"replicas", "selector"}); h != "" {
		t.Errorf("far away, but %q", h)
	}
}
