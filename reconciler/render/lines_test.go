package render

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// TestLinesAreCauses: the line of a field is one that makes it. Whoever changes
// that line, and nothing else, gets another value there. So no table of right
// answers is needed.
func TestLinesAreCauses(t *testing.T) {
	names, _ := filepath.Glob("testdata/lines/*.txtar")
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			tree := memTree{}
			for _, f := range ar.Files {
				tree[f.Name] = string(f.Data)
			}
			fields := fieldsOf(t, tree)
			if len(fields) < 30 {
				t.Fatalf("there are %d fields", len(fields))
			}
			changed := map[string]map[string]leaf{} // by the line that was changed
			for _, path := range slices.Sorted(maps.Keys(fields)) {
				at := fields[path].place
				if changed[at] == nil {
					changed[at] = fieldsOf(t, withLine(t, tree, at))
				}
				after := changed[at]
				if len(after) > 0 && after[path].text == fields[path].text {
					t.Errorf("%s = %s is said to be at %s, which does not make it", path, fields[path].text, at)
				}
			}
		})
	}
}

// leaf is a scalar of a manifest and the line where it is said to be.
type leaf struct{ text, place string }

// fieldsOf are the scalars of all objects that a tree makes; none where it
// makes none. The names of objects do not count, for a change may be one of
// them: objects go by kind and by their order.
func fieldsOf(t *testing.T, tree memTree) map[string]leaf {
	t.Helper()
	units, findings, err := Scan(tree)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]leaf{}
	if len(findings) > 0 {
		return out
	}
	number := map[string]int{}
	for i := range units {
		r, err := Render(context.Background(), &units[i])
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Findings) > 0 {
			return map[string]leaf{}
		}
		for j := range r.Manifests {
			m := &r.Manifests[j]
			number[m.Resource.Kind]++
			scalars(fmt.Sprintf("%s %d: ", m.Resource.Kind, number[m.Resource.Kind]), m.Value(), out)
		}
	}
	return out
}

func scalars(path string, v Value, out map[string]leaf) {
	for key, part := range v.Fields() {
		scalars(path+"."+key, part, out)
	}
	for i, part := range v.Items() {
		scalars(fmt.Sprintf("%s[%d]", path, i), part, out)
	}
	// Items of lists go by their names: another name is another item.
	name := strings.HasSuffix(path, "].name")
	if text := v.Scalar(); text != "" && !name && !strings.HasSuffix(path, ".kind") && !strings.HasSuffix(path, ".apiVersion") {
		file, line, _ := v.Place()
		out[path] = leaf{text, fmt.Sprintf("%s:%d", file, line)}
	}
}

// withLine is a tree in which the last letter or digit of a line is another.
func withLine(t *testing.T, tree memTree, at string) memTree {
	t.Helper()
	file, number, _ := strings.Cut(at, ":")
	lines := strings.SplitAfter(tree[file], "\n")
	var n int
	if _, err := fmt.Sscan(number, &n); err != nil || n < 1 || n > len(lines) {
		t.Fatalf("there is no line %s", at)
	}
	line := []byte(lines[n-1])
	i := strings.LastIndexFunc(lines[n-1], func(r rune) bool { return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' })
	if i < 0 {
		t.Fatalf("there is nothing to change at %s: %s", at, line)
	}
	switch c := line[i]; {
	case c >= '0' && c <= '8', c >= 'a' && c <= 'y':
		line[i]++
	default:
		line[i]--
	}
	out := maps.Clone(tree)
	out[file] = strings.Join(slices.Concat(lines[:n-1], []string{string(line)}, lines[n:]), "")
	return out
}
