package schema

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
)

func TestTable(t *testing.T) {
	seen := map[string]string{}
	for _, r := range Resources {
		for what, key := range map[string]string{
			"kind": r.GVK().String(), "resource": r.GVR().String(), "prefix": r.StoragePrefix,
			"schema name": r.Definition(), // CUE and JSON Schema name kinds without group
		} {
			if what == "prefix" && r.Storage != nil {
				continue
			}
			if other, ok := seen[what+key]; ok {
				t.Errorf("%s and %s have the same %s %s", r, other, what, key)
			}
			seen[what+key] = r.String()
		}
		if ByGVK(r.GVK()) != r || ByGVR(r.GVR()) != r || ResourceOf(r.New()) != r {
			t.Errorf("%s is not found", r)
		}
		if k := r.New().GetObjectKind().GroupVersionKind(); k != r.GVK() {
			t.Errorf("%s: New makes a %s", r, k)
		}
	}
}

func TestLists(t *testing.T) {
	for _, r := range Resources {
		list := r.NewList()
		o, err := meta.TypeAccessor(list)
		if err != nil {
			t.Fatal(err)
		}
		if o.GetKind() != r.ListKind || o.GetAPIVersion() != r.APIVersion() {
			t.Errorf("%s: NewList makes a %s %s", r, o.GetAPIVersion(), o.GetKind())
		}
		if r.ListKind != r.Kind+"List" || r.Singular != strings.ToLower(r.Kind) {
			t.Errorf("%s: odd names %s %s", r, r.ListKind, r.Singular)
		}
	}
}

// TestColumns keeps the table and the list of its functions together.
func TestColumns(t *testing.T) {
	used := map[string]bool{}
	for _, r := range append([]*Resource{ComponentStatuses}, Resources...) {
		names := map[string]bool{}
		for _, c := range r.Columns {
			if names[c.Name] {
				t.Errorf("%s has two columns %s", r, c.Name)
			}
			names[c.Name] = true
			if (c.Path == "") == (c.Func == "") {
				t.Errorf("%s, column %s: path %q and func %q", r, c.Name, c.Path, c.Func)
			}
			if c.Description == "" && c.Func != "runtimeHandler" { // upstream has none either
				t.Errorf("%s, column %s has no description", r, c.Name)
			}
			if c.Func != "" {
				used[c.Func] = true
				if ColumnFuncs[c.Func] == "" {
					t.Errorf("%s, column %s: ColumnFuncs has no %s", r, c.Name, c.Func)
				}
			}
		}
		if !names["Name"] {
			t.Errorf("%s has no column Name", r)
		}
	}
	for name := range ColumnFuncs {
		if !used[name] {
			t.Errorf("no column uses the function %s", name)
		}
	}
}

func TestResourceVersion(t *testing.T) {
	v := NewResourceVersion(7, 3)
	if v.Main() != 7 || v.Sub() != 3 || v.String() != "7340035" {
		t.Errorf("got %d %d %s", v.Main(), v.Sub(), v)
	}
	if NewResourceVersion(7, 1<<20-1) >= NewResourceVersion(8, 0) {
		t.Error("resource versions do not grow")
	}
	if p, err := ParseResourceVersion(v.String()); err != nil || p != v {
		t.Errorf("parse: %d, %v", p, err)
	}
	if p, err := ParseResourceVersion(""); err != nil || p != 0 {
		t.Errorf("parse empty: %d, %v", p, err)
	}
	for _, s := range []string{"-1", "x", "1.0", "99999999999999999999"} {
		if _, err := ParseResourceVersion(s); err == nil {
			t.Errorf("parse %q: no error", s)
		}
	}
}

func TestKey(t *testing.T) {
	for s, k := range map[string]Key{"a/b": {"a", "b"}, "b": {Name: "b"}} {
		if ParseKey(s) != k || k.String() != s {
			t.Errorf("%s: %v, %s", s, ParseKey(s), k)
		}
	}
}
