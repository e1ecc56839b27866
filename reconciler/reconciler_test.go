package reconciler

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
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/sandbox"
)

func TestMain(m *testing.M) {
	if sandbox.Serve(Functions()...) {
		return
	}
	goleak.VerifyTestMain(m)
}

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
	head    Commit
	trees   map[string]memTree
	commits map[string]Commit
	err     error
	changed chan struct{}
}

func newMemSource() *memSource {
	return &memSource{trees: map[string]memTree{}, commits: map[string]Commit{}, changed: make(chan struct{}, 1), err: errors.New("the branch main does not exist")}
}

func (s *memSource) push(t memTree, message string) string {
	s.mu.Lock()
	sha := hash(fmt.Sprint(t, message, len(s.trees)))
	s.trees[sha] = t
	s.head = Commit{SHA: sha, Parent: s.head.SHA, Author: "Ada <ada@example.com>", Message: message, Time: time.Unix(1700000000, 0)}
	s.commits[sha] = s.head
	s.err = nil
	s.mu.Unlock()
	s.notify()
	return sha
}

// reset moves the branch to a commit that was pushed before.
func (s *memSource) reset(sha string) {
	s.mu.Lock()
	s.head = s.commits[sha]
	s.mu.Unlock()
	s.notify()
}

func (s *memSource) fail(err error) {
	s.mu.Lock()
	s.err = err
	s.mu.Unlock()
	s.notify()
}

func (s *memSource) notify() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *memSource) Fetch(context.Context) (Commit, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.head, s.err
}

func (s *memSource) Bring(_ context.Context, sha string) (Commit, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.commits[sha]; ok {
		return c, nil
	}
	return Commit{}, errors.New("no such commit")
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
