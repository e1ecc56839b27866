package render

import (
	"iter"
	"testing"
)

// refusing is a tree that also has files which it cannot accept.
type refusing struct {
	memTree
	bad []*FileError
}

func (r refusing) Walk() iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		for f, err := range r.memTree.Walk() {
			if !yield(f, err) {
				return
			}
		}
		for _, b := range r.bad {
			if !yield(File{Path: b.Path}, b) {
				return
			}
		}
	}
}

func TestWhatRefusesACommit(t *testing.T) {
	for _, c := range []struct {
		name   string
		bad    FileError
		ignore string
		want   int
	}{
		{"a manifest that is too large", FileError{Path: "a/big.yaml", Rule: "TooLarge"}, "", 1},
		{"a picture that is too large", FileError{Path: "a/big.png", Rule: "TooLarge"}, "", 0},
		{"a manifest in LFS", FileError{Path: "a.json", Rule: "LFSPointer"}, "", 1},
		{"a link out of the tree, to a folder", FileError{Path: "apps", Rule: "Symlink"}, "", 1},
		{"a submodule", FileError{Path: "charts/web", Rule: "Submodule"}, "", 1},
		{"a hidden submodule", FileError{Path: ".github/x", Rule: "Submodule"}, "", 0},
		{"ignored: too large", FileError{Path: "a/big.yaml", Rule: "TooLarge"}, "big.yaml", 0},
		{"ignored: a submodule", FileError{Path: "charts/web", Rule: "Submodule"}, "charts/", 0},
		{"the walk has ended", FileError{Path: ".", Rule: "TooMany", Partial: true}, "", 1},
		{"the walk has ended in what is ignored", FileError{Path: "deep", Rule: "TooMany", Partial: true}, "deep", 1},
	} {
		tree := refusing{memTree{".writignore": c.ignore}, []*FileError{&c.bad}}
		_, findings, err := Scan(tree)
		if err != nil || len(findings) != c.want {
			t.Errorf("%s: %v, %v; want %d findings", c.name, findings, err, c.want)
		}
	}
}
