package receive

import (
	"fmt"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"

	"github.com/writ-os/writ/reconciler/source/pack"
)

// inflated is how many times the bound of a push its objects may measure when
// they are unpacked. Manifests compress to a fifth or so; a thousandth is an
// attack.
const inflated = 16

// limits bound a pack that is pushed.
func (r *Remote) limits() pack.Limits {
	return pack.Limits{Size: r.cfg.MaxPack, Object: min(r.cfg.MaxObject, r.cfg.MaxPack), Delta: r.cfg.MaxObject, Total: inflated * r.cfg.MaxPack}
}

// connected verifies that each of the new objects has what it refers to. As
// every push was verified so, the whole below any object is complete. seen
// remembers what objects are, from one push to the next: that an object is
// still there is in an index, what it is only in the object itself.
func connected(st storer.EncodedObjectStorer, objs []pack.Object, seen *seenKinds) error {
	kinds := make(map[plumbing.Hash]plumbing.ObjectType, len(objs))
	for _, o := range objs {
		kinds[o.Hash] = o.Kind
	}
	need := func(by, h plumbing.Hash, kind plumbing.ObjectType) error {
		have, ok := kinds[h]
		if !ok {
			have = plumbing.InvalidObject
			switch {
			case kind == plumbing.BlobObject || kind != plumbing.AnyObject && seen.is(h, kind):
				if st.HasEncodedObject(h) == nil {
					have = kind
				}
			default:
				if o, err := st.EncodedObject(kind, h); err == nil {
					have = o.Type()
					seen.note(h, have)
				}
			}
			kinds[h] = have
		}
		if have == plumbing.InvalidObject || kind != plumbing.AnyObject && have != kind {
			return fmt.Errorf("missing objects: %s refers to %s %s", by, kind, h)
		}
		return nil
	}
	for _, o := range objs {
		if err := links(st, o, need); err != nil {
			return err
		}
	}
	return nil
}

// maxSeen bounds what is remembered of objects: more than a large repository
// has folders.
const maxSeen = 50_000

// seenKinds remembers what objects are. The name of an object is made of its
// content and its kind, so that it never becomes another. The zero value is
// ready.
type seenKinds struct {
	mu    sync.Mutex
	kinds map[plumbing.Hash]plumbing.ObjectType
}

func (s *seenKinds) is(h plumbing.Hash, kind plumbing.ObjectType) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kinds[h] == kind
}

func (s *seenKinds) note(h plumbing.Hash, kind plumbing.ObjectType) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kinds == nil || len(s.kinds) >= maxSeen {
		s.kinds = map[plumbing.Hash]plumbing.ObjectType{}
	}
	s.kinds[h] = kind
}

// links calls need for each object that o refers to.
func links(st storer.EncodedObjectStorer, o pack.Object, need func(by, h plumbing.Hash, kind plumbing.ObjectType) error) error {
	switch o.Kind {
	case plumbing.CommitObject:
		c, err := object.GetCommit(st, o.Hash)
		if err != nil {
			return fmt.Errorf("read commit %s: %w", o.Hash, err)
		}
		for _, p := range c.ParentHashes {
			if err := need(o.Hash, p, plumbing.CommitObject); err != nil {
				return err
			}
		}
		return need(o.Hash, c.TreeHash, plumbing.TreeObject)
	case plumbing.TagObject:
		t, err := object.GetTag(st, o.Hash)
		if err != nil {
			return fmt.Errorf("read tag %s: %w", o.Hash, err)
		}
		return need(o.Hash, t.Target, t.TargetType)
	case plumbing.TreeObject:
		entries, err := readTree(st, o.Hash)
		if err != nil {
			return err
		}
		for _, e := range entries {
			kind := plumbing.BlobObject
			switch e.mode {
			case filemode.Submodule:
				continue
			case filemode.Dir:
				kind = plumbing.TreeObject
			}
			if err := need(o.Hash, e.hash, kind); err != nil {
				return err
			}
		}
	}
	return nil
}
