package receive

import (
	"fmt"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/writ-os/writ/reconciler/sandbox"
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

// readThere is what a child does with a push: it reads the pack, and verifies what
// is in it.
var readThere = pack.Judge("receive.pack", func(c *pack.Contents, caller *sandbox.Caller) error { return connected(c, caller.Ask) })

// Functions are what a child must know that reads packs.
func Functions() []sandbox.Function { return []sandbox.Function{readThere} }

// connected verifies that each of the new objects has what it refers to, and that
// folders lie in each other within bounds. As every push was verified so, the whole
// below any object is complete. What is not in the pack is asked for: see present.
func connected(p *pack.Contents, ask func([]byte) ([]byte, error)) error {
	c := connection{pack: p, ask: ask, kinds: make(map[plumbing.Hash]plumbing.ObjectType), shapes: make(map[plumbing.Hash]shape)}
	for o := range p.All() {
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
	pack   *pack.Contents
	ask    func([]byte) ([]byte, error)
	kinds  map[plumbing.Hash]plumbing.ObjectType // of objects that are not in the pack
	shapes map[plumbing.Hash]shape               // of folders, as far as they are known
}

// reference is what an object refers to.
type reference struct {
	hash plumbing.Hash
	kind plumbing.ObjectType
}

// need says that an object refers to others.
func (c *connection) need(by plumbing.Hash, refs ...reference) error {
	var unknown []reference
	for _, r := range refs {
		if _, ok := c.kind(r.hash); !ok {
			unknown = append(unknown, r)
			c.kinds[r.hash] = plumbing.InvalidObject // once, if it stands there twice
		}
	}
	if len(unknown) > 0 {
		reply, err := c.ask(encodeReferences(unknown))
		if err == nil {
			err = c.learn(unknown, reply)
		}
		if err != nil {
			return err
		}
	}
	for _, r := range refs {
		have, _ := c.kind(r.hash)
		if have == plumbing.InvalidObject || r.kind != plumbing.AnyObject && have != r.kind {
			return fmt.Errorf("missing objects: %s refers to %s %s", by, r.kind, r.hash)
		}
	}
	return nil
}

// kind is what an object is that is in the pack, or was asked for.
func (c *connection) kind(h plumbing.Hash) (plumbing.ObjectType, bool) {
	if kind, ok := c.pack.Kind(h); ok {
		return kind, true
	}
	kind, ok := c.kinds[h]
	return kind, ok
}

// links verifies what a commit or a tag refers to.
func (c *connection) links(o pack.Object) error {
	if o.Kind != plumbing.CommitObject && o.Kind != plumbing.TagObject {
		return nil
	}
	e, err := c.pack.Get(o.Hash)
	if err != nil {
		return fmt.Errorf("read %s %s: %w", o.Kind, o.Hash, err)
	}
	if o.Kind == plumbing.TagObject {
		t, err := object.DecodeTag(nil, e)
		if err != nil {
			return fmt.Errorf("read tag %s: %w", o.Hash, err)
		}
		return c.need(o.Hash, reference{t.Target, t.TargetType})
	}
	commit, err := object.DecodeCommit(nil, e)
	if err != nil {
		return fmt.Errorf("read commit %s: %w", o.Hash, err)
	}
	var refs []reference
	for _, p := range commit.ParentHashes {
		refs = append(refs, reference{p, plumbing.CommitObject})
	}
	return c.need(o.Hash, append(refs, reference{commit.TreeHash, plumbing.TreeObject})...)
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
