// Package sortedset has sorted sets of which a changed copy costs what the
// change costs, and not what the set does: two versions share all that they
// have in common.
//
// It watches nothing and owns nothing. It promises that a set that nobody
// writes to may be read and cloned by several goroutines, and that a clone and
// its origin do not see each other's changes.
package sortedset

import (
	"iter"
	"sync"

	"github.com/google/btree"
)

// degree of the tree: nodes of some hundred bytes are cheap to copy and to
// search.
const degree = 16

// Set is a sorted set. A nil Set is an empty one that cannot be written to.
type Set[T any] struct {
	mu   sync.Mutex // of cloning: it notes in both trees that they share nodes
	tree *btree.BTreeG[T]
}

// New returns an empty set in the order of less; of two items that are neither
// less than the other the set holds one.
func New[T any](less func(a, b T) bool) *Set[T] {
	return &Set[T]{tree: btree.NewG(degree, btree.LessFunc[T](less))}
}

// Clone returns a set with the same items.
func (s *Set[T]) Clone() *Set[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Set[T]{tree: s.tree.Clone()}
}

// Put adds an item in the place of an equal one.
func (s *Set[T]) Put(item T) { s.tree.ReplaceOrInsert(item) }

// Delete takes out the item that equals one; false: there was none.
func (s *Set[T]) Delete(item T) (T, bool) { return s.tree.Delete(item) }

// Get returns the item that equals one.
func (s *Set[T]) Get(item T) (T, bool) {
	if s == nil {
		var none T
		return none, false
	}
	return s.tree.Get(item)
}

// Len is how many items there are.
func (s *Set[T]) Len() int {
	if s == nil {
		return 0
	}
	return s.tree.Len()
}

// All yields the items in their order.
func (s *Set[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		if s != nil {
			s.tree.Ascend(yield)
		}
	}
}

// From yields the items that are not less than one, in their order.
func (s *Set[T]) From(first T) iter.Seq[T] {
	return func(yield func(T) bool) {
		if s != nil {
			s.tree.AscendGreaterOrEqual(first, yield)
		}
	}
}
