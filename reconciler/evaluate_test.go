package reconciler

import (
	"context"
	"io"
	"iter"
	"maps"
	"sync/atomic"
	"testing"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/render"
)

// counted is a tree that counts the files that are opened.
type counted struct {
	memTree
	opened *atomic.Int32
}

func (c counted) Walk() iter.Seq2[render.File, error] {
	return func(yield func(render.File, error) bool) {
		for f, err := range c.memTree.Walk() {
			open := f.Open
			f.Open = func() (io.ReadCloser, error) { c.opened.Add(1); return open() }
			if !yield(f, err) {
				return
			}
		}
	}
}

func TestUnchangedFilesAreNotRead(t *testing.T) {
	e, f := newEvaluator(), client.NewFake()
	tree := shop(200, 0)
	store(t, e, f, tree, "1")
	next := maps.Clone(tree)
	next["new.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: new}\n"
	delete(next, "apps/f00003.yaml")
	opened := new(atomic.Int32)
	if _, _, err := e.plan(context.Background(), counted{next, opened}, Commit{}, World{Repository: "cluster", Live: f.Cache(), Inventories: inventories(f)}, false); err != nil {
		t.Fatal(err)
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("%d files were read for one that changed", n)
	}
	// One object that is gone makes its file interesting again.
	if err := f.Delete(context.Background(), kind("ConfigMap"), live(f)[0], client.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	opened.Store(0)
	p, _, err := e.plan(context.Background(), counted{tree, opened}, Commit{}, World{Repository: "cluster", Live: f.Cache(), Inventories: inventories(f)}, false)
	if err != nil {
		t.Fatal(err)
	}
	if n := opened.Load(); n > 2 || len(p.Ops) != 1 {
		t.Errorf("%d files were read, %d ops, for one object that is gone", n, len(p.Ops))
	}
}

// TestPackagesKnowTheirImports: a CUE package is evaluated again when what it
// imports changes, and only then.
func TestPackagesKnowTheirImports(t *testing.T) {
	tree := memTree{
		"cue.mod/module.cue": "module: \"example.com/shop@v0\"\nlanguage: version: \"v0.9.0\"\n",
		"lib/lib.cue":        "package lib\n\nName: \"a\"\n",
		"shop/shop.cue":      "package shop\n\nimport \"example.com/shop/lib\"\n\nns: {apiVersion: \"v1\", kind: \"Namespace\", metadata: name: lib.Name}\n",
		"other/other.cue":    "package other\n\nns: {apiVersion: \"v1\", kind: \"Namespace\", metadata: name: \"other\"}\n",
	}
	hashes := func(t *testing.T, m memTree) map[string]string {
		units, findings, err := render.Scan(m)
		if err != nil || len(findings) > 0 {
			t.Fatal(err, findings)
		}
		out := map[string]string{}
		for _, u := range units {
			out[u.Path] = u.Hash
		}
		return out
	}
	before := hashes(t, tree)
	next := maps.Clone(tree)
	next["lib/lib.cue"] = "package lib\n\nName: \"b\"\n"
	after := hashes(t, next)
	for path, changed := range map[string]bool{"lib": true, "shop": true, "other": false} {
		if (before[path] != after[path]) != changed {
			t.Errorf("%s: changed is %v", path, !changed)
		}
	}
	findings, err := Check(context.Background(), next)
	if err != nil || len(findings) > 0 {
		t.Error(err, findings)
	}
}
