package source

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/memory"
	"github.com/google/go-cmp/cmp"
)

// forest stores random trees in memory.
type forest struct {
	*memory.Storage
	rand *rand.Rand
}

func (f forest) store(o interface {
	Encode(plumbing.EncodedObject) error
}) plumbing.Hash {
	e := f.NewEncodedObject()
	if err := o.Encode(e); err != nil {
		panic(err)
	}
	return must(f.SetEncodedObject(e))
}

// node is a file, or a folder when it has children.
type node struct {
	hash     plumbing.Hash
	mode     filemode.FileMode
	children map[string]*node
}

// grow makes a random folder. Few names and contents make collisions, files
// that become folders, and folders that come back, likely.
func (f forest) grow(depth int) *node {
	n := &node{children: map[string]*node{}}
	for range 1 + f.rand.IntN(5) {
		name := []string{"a", "a.b", "a-", "a0", "b", "é"}[f.rand.IntN(6)]
		if depth > 0 && f.rand.IntN(3) == 0 {
			n.children[name] = f.grow(depth - 1)
			continue
		}
		mode := []filemode.FileMode{filemode.Regular, filemode.Regular, filemode.Executable, filemode.Symlink}[f.rand.IntN(4)]
		n.children[name] = &node{hash: plumbing.ComputeHash(plumbing.BlobObject, []byte{byte(f.rand.IntN(4))}), mode: mode}
	}
	return n
}

// mutate changes some of a copy of a folder.
func (f forest) mutate(n *node, depth int) *node {
	if n.children == nil {
		return n
	}
	out, fresh := &node{children: map[string]*node{}}, f.grow(depth)
	for name, c := range n.children {
		switch f.rand.IntN(6) {
		case 0:
		case 1:
			if r, ok := fresh.children[name]; ok {
				c = r
			}
			out.children[name] = c
		case 2:
			out.children[name] = f.mutate(c, max(depth-1, 0))
		default:
			out.children[name] = c
		}
	}
	return out
}

func (f forest) plant(n *node) plumbing.Hash {
	t := &object.Tree{}
	for name, c := range n.children {
		if c.children == nil {
			t.Entries = append(t.Entries, object.TreeEntry{Name: name, Mode: c.mode, Hash: c.hash})
		} else if len(c.children) > 0 {
			t.Entries = append(t.Entries, object.TreeEntry{Name: name, Mode: filemode.Dir, Hash: f.plant(c)})
		}
	}
	slices.SortFunc(t.Entries, func(a, b object.TreeEntry) int { return strings.Compare(sortKey(a), sortKey(b)) })
	return f.store(t)
}

func (f forest) read(h plumbing.Hash) ([]object.TreeEntry, error) {
	if h.IsZero() {
		return nil, nil
	}
	t, err := object.GetTree(f.Storage, h)
	if err != nil {
		return nil, err
	}
	return t.Entries, nil
}

// theirs is what go-git finds between two trees.
func (f forest) theirs(t *testing.T, a, b plumbing.Hash) (out []Change) {
	changes, err := object.DiffTree(must(object.GetTree(f.Storage, a)), must(object.GetTree(f.Storage, b)))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		switch {
		case c.From.Name == "":
			out = append(out, Change{c.To.Name, Added, "", c.To.TreeEntry.Hash.String()})
		case c.To.Name == "":
			out = append(out, Change{c.From.Name, Removed, c.From.TreeEntry.Hash.String(), ""})
		default:
			out = append(out, Change{c.To.Name, Modified, c.From.TreeEntry.Hash.String(), c.To.TreeEntry.Hash.String()})
		}
	}
	sortChanges(out)
	return out
}

func sortChanges(c []Change) {
	slices.SortFunc(c, func(a, b Change) int { return strings.Compare(a.Path+string(a.Op), b.Path+string(b.Op)) })
}

func TestCompareFindsWhatGoGitFinds(t *testing.T) {
	differing := 0
	for seed := range uint64(2000) {
		f := forest{memory.NewStorage(), rand.New(rand.NewPCG(seed, 1))}
		before := f.grow(3)
		a, b := f.plant(before), f.plant(f.mutate(before, 3))
		got, err := compare(f.read, a, b)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.IsSortedFunc(got, func(a, b Change) int { return strings.Compare(a.Path, b.Path) }) {
			t.Errorf("seed %d: changes are not in the order of their paths: %v", seed, got)
		}
		sortChanges(got)
		if diff := cmp.Diff(f.theirs(t, a, b), got); diff != "" {
			t.Fatalf("seed %d (-theirs +ours):\n%s", seed, diff)
		}
		if len(got) > 0 {
			differing++
		}
	}
	if differing < 900 {
		t.Errorf("only %d of 2000 pairs differ: the test looks at too little", differing)
	}
}

func TestCompareReadsOnlyWhatChanged(t *testing.T) {
	f := forest{memory.NewStorage(), rand.New(rand.NewPCG(1, 1))}
	root := &node{children: map[string]*node{}}
	for i := range 200 {
		root.children[fmt.Sprintf("d%03d", i)] = &node{children: map[string]*node{"x": {hash: plumbing.ComputeHash(plumbing.BlobObject, []byte{byte(i)}), mode: filemode.Regular}}}
	}
	a := f.plant(root)
	root.children["d100"].children["x"].hash = plumbing.ComputeHash(plumbing.BlobObject, []byte("new"))
	b := f.plant(root)
	reads := 0
	got, err := compare(func(h plumbing.Hash) ([]object.TreeEntry, error) { reads++; return f.read(h) }, a, b)
	if err != nil || len(got) != 1 || got[0].Path != "d100/x" {
		t.Fatalf("compare = %v, %v", got, err)
	}
	if reads != 4 {
		t.Errorf("compare read %d folders, want the root and d100 of each", reads)
	}
}
