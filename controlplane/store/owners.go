package store

import (
	"bytes"
	"hash/maphash"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/writ-os/writ/schema"
)

// ownerSetsMost bounds how many different sets of owned fields are known at a
// time. All are dropped at once: those in use are back with the next objects.
const ownerSetsMost = 8192

// ownerSets makes equal sets of owned fields (metadata.managedFields) the same
// bytes: objects of one origin, the pods of a ReplicaSet say, have the same, and
// it is the larger part of a small object.
type ownerSets struct {
	mu   sync.Mutex
	seed maphash.Seed
	of   map[uint64][]byte
}

// share replaces the sets of a decoded object, which nobody reads yet.
func (s *ownerSets) share(o schema.Object) {
	if _, ok := o.(*unstructured.Unstructured); ok {
		return // its fields are a tree
	}
	owners := o.GetManagedFields()
	if len(owners) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil || len(s.of) >= ownerSetsMost {
		s.seed, s.of = maphash.MakeSeed(), map[uint64][]byte{}
	}
	for i := range owners {
		f := owners[i].FieldsV1
		if f == nil {
			continue
		}
		sum := maphash.Bytes(s.seed, f.GetRawBytes())
		if known, ok := s.of[sum]; !ok {
			s.of[sum] = bytes.Clone(f.GetRawBytes()) // not a part of a larger buffer
		} else if !bytes.Equal(known, f.GetRawBytes()) {
			continue
		}
		f.Raw = s.of[sum] //nolint:staticcheck // shared: SetRawBytes copies
	}
}
