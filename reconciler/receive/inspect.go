package receive

import (
	"fmt"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
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
	return pack.Limits{Size: r.cfg.MaxPack, Object: min(r.cfg.MaxObject, r.cfg.MaxPack), Delta: r.cfg.MaxObject, Total: inflated * r.cfg.MaxPack, Objects: r.cfg.MaxObjects}
}

// connected verifies that each of the new objects has what it refers to, and that
// folders lie in each other within bounds. As every push was verified so, the whole
// below any object is complete. seen remembers what objects are, from one push to
// the next: that an object is still there is in an index, what it is only in the
// object itself.
func connected(st storer.EncodedObjectStorer, objs []pack.Object, seen *seenKinds) error {
	c := connection{st: st, seen: seen, kinds: make(map[plumbing.Hash]plumbing.ObjectType, len(objs)), shapes: make(map[plumbing.Hash]shape)}
	for _, o := range objs {
		c.kinds[o.Hash] = o.Kind
		if o.Kind == plumbing.TreeObject {
			c.shapes[o.Hash] = unknownShape
		}
	}
	for _, o := range objs {
		var err error
		if o.Kind == plumbing.TreeObject {
			err = c.folder(o.Hash)
		} else {
			err = c.links(o)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// connection is what connected knows.
type connection struct {
	st     storer.EncodedObjectStorer
	seen   *seenKinds
	kinds  map[plumbing.Hash]plumbing.ObjectType
	shapes map[plumbing.Hash]shape // of new folders, and of old ones below them
}

// need says that an object refers to another one.
func (c *connection) need(by, h plumbing.Hash, kind plumbing.ObjectType) error {
	have, ok := c.kinds[h]
	if !ok {
		have = plumbing.InvalidObject
		switch {
		case kind == plumbing.BlobObject || kind != plumbing.AnyObject && c.seen.is(h, kind):
			if c.st.HasEncodedObject(h) == nil {
				have = kind
			}
		default:
			if o, err := c.st.EncodedObject(kind, h); err == nil {
				have = o.Type()
				c.seen.note(h, have)
			}
		}
		c.kinds[h] = have
	}
	if have == plumbing.InvalidObject || kind != plumbing.AnyObject && have != kind {
		return fmt.Errorf("missing objects: %s refers to %s %s", by, kind, h)
	}
	return nil
}

// links verifies what a commit or a tag refers to.
func (c *connection) links(o pack.Object) error {
	switch o.Kind {
	case plumbing.CommitObject:
		commit, err := object.GetCommit(c.st, o.Hash)
		if err != nil {
			return fmt.Errorf("read commit %s: %w", o.Hash, err)
		}
		for _, p := range commit.ParentHashes {
			if err := c.need(o.Hash, p, plumbing.CommitObject); err != nil {
				return err
			}
		}
		return c.need(o.Hash, commit.TreeHash, plumbing.TreeObject)
	case plumbing.TagObject:
		t, err := object.GetTag(c.st, o.Hash)
		if err != nil {
			return fmt.Errorf("read tag %s: %w", o.Hash, err)
		}
		return c.need(o.Hash, t.Target, t.TargetType)
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
	mu     sync.Mutex
	kinds  map[plumbing.Hash]plumbing.ObjectType
	shapes map[plumbing.Hash]shape
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

// shape of a folder that was there before; false when it is not remembered.
func (s *seenKinds) shape(h plumbing.Hash) (shape, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	is, ok := s.shapes[h]
	return is, ok
}

func (s *seenKinds) noteShape(h plumbing.Hash, is shape) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shapes == nil || len(s.shapes) >= 4*maxSeen {
		s.shapes = map[plumbing.Hash]shape{}
	}
	s.shapes[h] = is
}
