package source

import (
	"errors"
	"slices"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

const (
	// maxFacts bounds what is remembered of blobs.
	maxFacts = 500_000
	// maxEntries bounds what is kept of folders, in entries of some 100 bytes.
	maxEntries = 100_000
	// maxHandles bounds how many repositories are asked for a file: pushes that
	// are looked at at the same time, and the repository itself.
	maxHandles = 64
)

// shared is what handles of repositories that have the same objects have in
// common. Objects are named by their content, so that what one handle has seen
// of an object, or read of it, holds for all.
type shared struct {
	mu      sync.Mutex
	facts   map[plumbing.Hash]facts
	folders map[plumbing.Hash][]object.TreeEntry
	order   []plumbing.Hash // of folders, the oldest first
	entries int             // in folders
	handles []*objects      // that joined and have not left; the first is the repository
}

func (s *shared) recall(h plumbing.Hash) (facts, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok := s.facts[h]
	return f, ok
}

func (s *shared) remember(h plumbing.Hash, f facts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.facts) >= maxFacts {
		clear(s.facts)
	}
	s.facts[h] = f
}

// folder returns a folder that was kept.
func (s *shared) folder(h plumbing.Hash) ([]object.TreeEntry, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries, ok := s.folders[h]
	return entries, ok
}

// keep keeps a folder that a comparison has read: the next one reads it again,
// as what was before. The oldest go.
func (s *shared) keep(h plumbing.Hash, entries []object.TreeEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.folders[h]; ok || len(entries) > maxEntries {
		return
	}
	if s.folders == nil {
		s.folders = map[plumbing.Hash][]object.TreeEntry{}
	}
	s.folders[h], s.order, s.entries = entries, append(s.order, h), s.entries+len(entries)
	for s.entries > maxEntries {
		s.entries -= len(s.folders[s.order[0]])
		delete(s.folders, s.order[0])
		s.order = s.order[1:]
	}
}

// others are the handles besides one.
func (s *shared) others(o *objects) []*objects {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.handles), func(h *objects) bool { return h == o })
}

// join makes o a handle beside that of another repository. It is called before
// o is used.
func (o *objects) join(to *objects) {
	o.beside, o.elsewhere = to, to.known()
	s := to.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	o.shared, o.joined = s, true
	if len(s.handles) < maxHandles {
		s.handles = append(s.handles, o)
	}
}

// leave ends what join began; without it, it does nothing.
func (o *objects) leave() {
	s := o.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	if !o.joined {
		return
	}
	o.gone = true
	s.handles = slices.DeleteFunc(s.handles, func(h *objects) bool { return h == o })
}

func (o *objects) left() bool {
	o.shared.mu.Lock()
	defer o.shared.mu.Unlock()
	return o.gone
}

// content is blob for a reader that may outlive this handle: what a push has
// brought is in its own repository at first and then in the one it went to.
func (o *objects) content(h plumbing.Hash, limit int64) (data []byte, err error) {
	err = problem(ErrMissing, "object %s is not in the repository", h)
	if !o.left() {
		if data, err = o.blob(h, limit); err == nil || !errors.Is(err, ErrMissing) {
			return data, err
		}
	}
	for _, other := range o.shared.others(o) {
		if data, e := other.blob(h, limit); e == nil {
			return data, nil
		}
	}
	return nil, err
}
