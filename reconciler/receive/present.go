package receive

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// What the reader of a push asks the server: what some objects are that are not in
// the pack. Each is a kind, one byte, and a hash. The reply says of each what it is,
// one byte, 0 where it is not here, and of a folder its shape: depth, one byte, and
// path, two.
const (
	askedSize = 1 + 20
	replySize = 1 + 1 + 2
)

func encodeReferences(refs []reference) []byte {
	out := make([]byte, 0, askedSize*len(refs))
	for _, r := range refs {
		out = append(append(out, byte(r.kind)), r.hash[:]...) //nolint:gosec // one byte
	}
	return out
}

// learn takes in a reply.
func (c *connection) learn(refs []reference, reply []byte) error {
	if len(reply) != replySize*len(refs) {
		return errors.New("read pack: what is here is not known")
	}
	for i, r := range refs {
		got := reply[i*replySize:]
		kind := plumbing.ObjectType(got[0]) //nolint:gosec // one byte
		c.kinds[r.hash] = kind
		if kind == plumbing.TreeObject {
			c.shapes[r.hash] = shape{got[1], binary.BigEndian.Uint16(got[2:])}
		}
	}
	return nil
}

// present are the objects that were here before a push; all of them were verified when
// they came.
type present struct {
	st     storer.EncodedObjectStorer
	seen   *seenKinds // from one push to the next: that an object is here is in an index, what it is only in itself
	shapes map[plumbing.Hash]shape
}

// answer answers what the reader of a push asks.
func (k *present) answer(asked []byte) ([]byte, error) {
	if len(asked)%askedSize != 0 || len(asked) > askedSize*maxEntries {
		return nil, errors.New("read pack: nobody asks so")
	}
	reply := make([]byte, 0, len(asked)/askedSize*replySize)
	for ; len(asked) > 0; asked = asked[askedSize:] {
		h := plumbing.Hash(asked[1:askedSize])
		kind := k.kind(h, plumbing.ObjectType(asked[0])) //nolint:gosec // one byte
		var is shape
		if kind == plumbing.TreeObject {
			if err := measure(h, k.visit, k.shape, k.note); err != nil {
				return nil, err
			}
			is, _ = k.shape(h)
		}
		reply = binary.BigEndian.AppendUint16(append(reply, byte(kind), is.depth), is.path) //nolint:gosec // one byte
	}
	return reply, nil
}

// kind is what an object is that is asked for as kind; plumbing.InvalidObject where
// it is not here, or not one of these.
func (k *present) kind(h plumbing.Hash, kind plumbing.ObjectType) plumbing.ObjectType {
	if kind == plumbing.BlobObject || kind != plumbing.AnyObject && k.seen.is(h, kind) {
		if k.st.HasEncodedObject(h) == nil {
			return kind
		}
		return plumbing.InvalidObject
	}
	o, err := k.st.EncodedObject(kind, h)
	if err != nil {
		return plumbing.InvalidObject
	}
	k.seen.note(h, o.Type())
	return o.Type()
}

func (k *present) shape(h plumbing.Hash) (shape, bool) {
	if is, ok := k.shapes[h]; ok {
		return is, true
	}
	return k.seen.shape(h)
}

func (k *present) note(h plumbing.Hash, is shape) {
	k.shapes[h] = is
	k.seen.noteShape(h, is)
}

func (k *present) visit(h plumbing.Hash) (visit, error) {
	entries, err := readTree(k.st, h)
	if err != nil {
		return visit{}, err
	}
	return visited(h, entries)
}

// withPush are the objects of a repository and those of a push, which it does not see
// yet.
type withPush struct {
	*objects
	pack interface {
		Get(h plumbing.Hash) (plumbing.EncodedObject, error)
	}
}

// EncodedObject implements storer.EncodedObjectStorer.
func (w withPush) EncodedObject(kind plumbing.ObjectType, h plumbing.Hash) (plumbing.EncodedObject, error) {
	o, err := w.pack.Get(h)
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		return w.objects.EncodedObject(kind, h)
	}
	if err != nil {
		return nil, fmt.Errorf("read object %s: %w", h, err)
	}
	if kind != plumbing.AnyObject && o.Type() != kind {
		return nil, plumbing.ErrObjectNotFound
	}
	return o, nil
}
