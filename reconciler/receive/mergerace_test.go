package receive

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/writ-os/writ/reconciler/source"
)

// Who reads the repository without asking, as the reconciler does, finds everything
// while packs become one.
func TestReadersDoNotNoticeMerges(t *testing.T) {
	s := newServer(t)
	repo := s.repos["cluster"]
	keep := func(files int) string { // one pack for each of many commits
		var sha plumbing.Hash
		for i := range manyPacks + 5 {
			p := newPacker()
			blob := p.add(plumbing.BlobObject, fmt.Appendf(nil, "%d %d\n", files, i))
			sha = p.commit(p.add(plumbing.TreeObject, entryOf("100644", "a.yaml", blob)))
			q, err := repo.quarantine("refs/heads/main")
			if err != nil {
				t.Fatal(err)
			}
			if err := q.receive(t.Context(), nil, bytes.NewReader(p.done()), s.limits()); err != nil {
				t.Fatal(err)
			}
			if err := q.promote(); err != nil {
				t.Fatal(err)
			}
			_ = q.close()
		}
		return sha.String()
	}
	for round := range 2 {
		sha := keep(round)
		if err := repo.writeRef("refs/heads/main", sha); err != nil {
			t.Fatal(err)
		}
		var stop atomic.Bool
		done := make(chan error, 3)
		for range cap(done) {
			go func() {
				for last := false; !last; {
					last = stop.Load() // once more after the merge
					src := source.New(source.Config{URL: s.RepoDir("cluster")})
					_, err := src.Fetch(t.Context())
					if err == nil {
						var tree source.Tree
						if tree, err = src.Tree(sha); err == nil {
							_, err = tree.File("a.yaml")
						}
					}
					src.Close()
					if err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
		}
		if err := repo.merge(); err != nil {
			t.Fatal(err)
		}
		stop.Store(true)
		for range cap(done) {
			if err := <-done; err != nil {
				t.Errorf("round %d: %v", round, err)
			}
		}
	}
}
