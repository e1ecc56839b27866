package histories

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/writ-os/writ/reconciler"
	"github.com/writ-os/writ/reconciler/render"
)

// memTree is a tree in memory: path to content.
type memTree map[string]string

func (t memTree) Walk() iter.Seq2[render.File, error] {
	return func(yield func(render.File, error) bool) {
		paths := make([]string, 0, len(t))
		for p := range t {
			paths = append(paths, p)
		}
		sort.Strings(paths)
		for _, p := range paths {
			content := t[p]
			f := render.File{Path: p, Blob: hash(content), Size: int64(len(content)),
				Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(content)), nil }}
			if !yield(f, nil) {
				return
			}
		}
	}
}

func hash(s string) string {
	sum := sha1.Sum([]byte(s))
	return hex.EncodeToString(sum[:])
}

// memSource is a branch in memory.
type memSource struct {
	mu      sync.Mutex
	head    reconciler.Commit
	trees   map[string]memTree
	commits map[string]reconciler.Commit
	err     error
	changed chan struct{}
}

func newMemSource() *memSource {
	return &memSource{trees: map[string]memTree{}, commits: map[string]reconciler.Commit{}, changed: make(chan struct{}, 1), err: errors.New("the branch main does not exist")}
}

// stage is a commit that somebody pushes, before the branch moves.
func (s *memSource) stage(t memTree, message string) reconciler.Commit {
	s.mu.Lock()
	defer s.mu.Unlock()
	sha := hash(fmt.Sprint(t, message, len(s.trees)))
	s.trees[sha] = t
	s.commits[sha] = reconciler.Commit{SHA: sha, Parent: s.head.SHA, Author: "Ada <ada@example.com>", Message: message, Time: time.Unix(1700000000, 0)}
	return s.commits[sha]
}

// move moves the branch to a commit.
func (s *memSource) move(c reconciler.Commit) {
	s.mu.Lock()
	s.head, s.err = c, nil
	s.mu.Unlock()
	s.notify()
}

func (s *memSource) notify() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *memSource) Fetch(context.Context) (reconciler.Commit, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.head, s.err
}

func (s *memSource) Bring(_ context.Context, sha string) (reconciler.Commit, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.commits[sha]; ok {
		return c, nil
	}
	return reconciler.Commit{}, errors.New("no such commit")
}

func (s *memSource) Tree(sha string) (render.Tree, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t, ok := s.trees[sha]; ok {
		return t, nil
	}
	return nil, errors.New("no such commit")
}

func (s *memSource) Changed() <-chan struct{} { return s.changed }
