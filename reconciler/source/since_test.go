package source

import (
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/memory"
	"github.com/google/go-cmp/cmp"
)

// TestSinceIsTheWalk: what a walk yields is what the walk of another version
// yielded, changed as Since says.
func TestSinceIsTheWalk(t *testing.T) {
	told := 0
	for seed := range uint64(150) {
		f := forest{memory.NewStorage(), rand.New(rand.NewPCG(seed, 2))}
		for i := range 4 {
			blob := f.NewEncodedObject()
			blob.SetType(plumbing.BlobObject)
			w := must(blob.Writer())
			_ = must(w.Write([]byte{byte(i)}))
			must(f.SetEncodedObject(blob))
		}
		before := f.grow(3)
		a, b := f.plant(before), f.plant(f.mutate(before, 3))
		dir := t.TempDir()
		disk := openStore(dir)
		for _, o := range f.Objects {
			must(disk.SetEncodedObject(o))
		}
		objs := newObjects(dir)
		limits := Limits{}.withDefaults()
		one, two := &commitTree{objects: objs, sha: a.String(), root: a, limits: limits}, &commitTree{objects: objs, sha: b.String(), root: b, limits: limits}
		for _, folder := range []string{".", "a"} {
			version, err := one.Version(folder)
			if err != nil {
				continue // there is no such folder
			}
			diff, ok, err := two.Since(folder, version)
			if err != nil || !ok {
				continue
			}
			told++
			want, wrong := walked(t, two, folder)
			got, other := walked(t, one, folder)
			for _, d := range diff {
				delete(got, d.Path)
				if d.File != nil {
					got[d.Path] = describeFile(t, *d.File)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" || !maps.Equal(wrong, other) {
				t.Fatalf("seed %d, folder %s (-walk +since):\n%s%s", seed, folder, diff, cmp.Diff(wrong, other))
			}
		}
		_, _ = disk.Close(), objs.close()
	}
	if told < 50 {
		t.Errorf("only %d differences were told", told)
	}
}

func walked(t *testing.T, tree *commitTree, folder string) (files, wrong map[string]string) {
	t.Helper()
	files, wrong = map[string]string{}, map[string]string{}
	for f, err := range tree.Walk(folder) {
		var bad *FileError
		switch {
		case errors.As(err, &bad):
			wrong[f.Path] = bad.Message
		case err != nil:
			t.Fatal(err)
		default:
			files[f.Path] = describeFile(t, f)
		}
	}
	return files, wrong
}

func describeFile(t *testing.T, f File) string {
	t.Helper()
	r, err := f.Open()
	if err != nil {
		t.Fatal(err)
	}
	data := must(io.ReadAll(r))
	return f.Mode.String() + " " + f.Blob + " " + string(data)
}

// TestSinceGivesUp: what only a walk can say is not told as a difference.
func TestSinceGivesUp(t *testing.T) {
	w := newWork(t)
	w.write("a.yaml", "1")
	one := w.commit()
	for name, change := range map[string]func(){
		"link":      func() { symlinkTo(t, w, "link.yaml", "a.yaml") },
		"too large": func() { w.write("large.yaml", strings.Repeat("x", 200)) },
		"LFS":       func() { w.write("model.bin", pointer) },
	} {
		t.Run(name, func(t *testing.T) {
			w.git("reset", "-q", "--hard", one)
			change()
			two := w.commit()
			s := New(Config{URL: w.dir, Limits: Limits{FileSize: 150}})
			defer s.Close()
			v := must(s.Tree(two)).(Versioned)
			before := must(must(s.Tree(one)).(Versioned).Version("."))
			if d, ok, err := v.Since(".", before); ok || err != nil {
				t.Errorf("%v, %v, %v", d, ok, err)
			}
			if d, ok, err := v.Since(".", plumbing.ComputeHash(plumbing.TreeObject, []byte("gone")).String()); ok || err != nil {
				t.Errorf("of a version that is not there: %v, %v, %v", d, ok, err)
			}
		})
	}
	v := must(New(Config{URL: w.dir, Limits: Limits{Files: 3, TotalSize: 10}}).Tree(one)).(Versioned)
	if !v.Fits(3, 10) || v.Fits(4, 10) || v.Fits(3, 11) {
		t.Error("the limits are others than those of a walk")
	}
}

// TestBesideOutlivesItsRepository: a file that was listed in a push can be read
// after the push is taken in and its own repository is gone.
func TestBesideOutlivesItsRepository(t *testing.T) {
	w := newWork(t)
	w.commit("a.yaml", "1")
	own, incoming := w.bare(), t.TempDir()
	w.git("push", "-q", own, "HEAD:main")
	s := New(Config{Builtin: own})
	defer s.Close()
	if _, err := s.Fetch(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.git("clone", "-q", "--bare", own, incoming+"/x.git")
	sha := w.commit("b.yaml", "2")
	w.git("push", "-q", incoming+"/x.git", "HEAD:main")
	pushed := s.Beside(incoming + "/x.git")
	tree := must(pushed.Tree(sha))
	f, err := tree.File("b.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if got := describeFile(t, f); !strings.HasSuffix(got, " 2") {
		t.Error(got)
	}
	if err := pushed.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Open(); !errors.Is(err, ErrMissing) {
		t.Errorf("a refused push is read: %v", err)
	}
	w.git("push", "-q", own, "HEAD:main")
	if got := describeFile(t, f); !strings.HasSuffix(got, " 2") {
		t.Error(got)
	}
}

// TestFoldersAreBounded: what is kept of folders does not grow.
func TestFoldersAreBounded(t *testing.T) {
	s := &shared{}
	entries := make([]object.TreeEntry, maxEntries/10)
	for i := range 100 {
		s.keep(plumbing.ComputeHash(plumbing.TreeObject, []byte{byte(i)}), entries)
	}
	if s.entries > maxEntries || len(s.folders) != 10 || len(s.order) != 10 {
		t.Errorf("%d entries of %d folders", s.entries, len(s.folders))
	}
	s.keep(plumbing.ZeroHash, make([]object.TreeEntry, maxEntries+1))
	if len(s.folders) != 10 {
		t.Error("a folder that is too large was kept")
	}
}
