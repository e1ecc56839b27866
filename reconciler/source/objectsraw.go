package source

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// about says what an object is and, of a tag, what it points to.
func (o *objects) about(h plumbing.Hash) (kind plumbing.ObjectType, to plumbing.Hash, err error) {
	err = o.read(h, func(st *filesystem.Storage) error {
		e, err := st.EncodedObject(plumbing.AnyObject, h)
		if err != nil {
			return err
		}
		if kind = e.Type(); kind != plumbing.TagObject {
			return nil
		}
		tag, err := object.DecodeTag(st, e)
		if err == nil {
			to = tag.Target
		}
		return err
	})
	return kind, to, err
}

// maxRaw is the longest commit or tag that is read: its message and its
// signature.
const maxRaw = 1 << 20

// raw returns a commit or an annotated tag as it is stored.
func (o *objects) raw(h plumbing.Hash) (data []byte, err error) {
	err = o.read(h, func(st *filesystem.Storage) error {
		if n, err := st.EncodedObjectSize(h); err != nil {
			return err
		} else if n > maxRaw {
			return fmt.Errorf("it has %d bytes", n)
		}
		e, err := st.EncodedObject(plumbing.AnyObject, h)
		if err != nil {
			return err
		}
		if t := e.Type(); t != plumbing.CommitObject && t != plumbing.TagObject {
			return fmt.Errorf("it is a %s, no commit or tag", t)
		}
		r, err := e.Reader()
		if err != nil {
			return err
		}
		data, err = io.ReadAll(r)
		return errors.Join(err, r.Close())
	})
	return data, err
}

// leaveOut notes a file that the remote was asked to leave out.
func (o *objects) leaveOut(h plumbing.Hash) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.absent) >= maxAbsent {
		return problem(ErrTooLarge, "the repository has more than %d files that are too long to be read", maxAbsent)
	}
	o.absent[h] = true
	return nil
}

func (o *objects) setAbsent(list []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.absent)
	for _, h := range list {
		o.absent[plumbing.NewHash(h)] = true
	}
}

func (o *objects) absentList() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var list []string
	for h := range o.absent {
		list = append(list, h.String())
	}
	slices.Sort(list)
	return list
}
