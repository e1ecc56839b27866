package receive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/storer"

	"github.com/writ-os/writ/reconciler/sandbox"
	"github.com/writ-os/writ/reconciler/source/pack"
)

// quarantine is a push under way: a bare repository of its own that has the
// objects of the real one (hard links) and those the push brings.
//
// Links rather than alternates: any reader understands them, and go-git does
// not follow alternates out of the folder it was opened on.
type quarantine struct {
	repo *repository
	dir  string
	base string // of the pack that arrived, without suffix; "" for none
	here *objects
	new  *pack.Opened
	st   storer.EncodedObjectStorer // of both
}

// quarantine makes an empty quarantine. The caller closes it.
func (repo *repository) quarantine(branch string) (*quarantine, error) {
	dir, err := os.MkdirTemp(repo.incoming, repo.name+"-")
	if err != nil {
		return nil, fmt.Errorf("make quarantine: %w", err)
	}
	q := &quarantine{repo: repo, dir: dir}
	err = initBare(dir, branch)
	if err == nil {
		repo.packs.RLock()
		err = linkObjects(filepath.Join(repo.dir, "objects"), filepath.Join(dir, "objects"))
		repo.packs.RUnlock()
	}
	if err != nil {
		_ = q.close()
		return nil, fmt.Errorf("make quarantine: %w", err)
	}
	return q, nil
}

// linkObjects links every object file of one repository into another.
func linkObjects(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		return os.Link(path, filepath.Join(to, rel))
	})
}

// close removes the quarantine.
func (q *quarantine) close() error {
	if q.here != nil {
		_ = q.here.Close()
	}
	if q.new != nil {
		_ = q.new.Close()
	}
	return os.RemoveAll(q.dir)
}

// receive stores the pack that r carries when a child of box has verified it: its
// bounds, and that every object has all it refers to; nil: this process has, which
// is for packs of our own. No bytes at all, or a pack without objects, are a push
// of objects that are already here. What the child does not survive, the
// repository does not know of.
func (q *quarantine) receive(ctx context.Context, box *sandbox.Sandbox, r io.Reader, l pack.Limits) error {
	in, err := pack.Spool(filepath.Join(q.dir, "incoming.pack"), r, l)
	if errors.Is(err, pack.ErrTooLarge) {
		// A client that is still sending would not hear the answer: some of
		// what is left is read and dropped.
		_, _ = io.CopyN(io.Discard, r, 4*l.Size)
	}
	q.here = openObjects(q.dir)
	q.st = q.here
	if err == nil && in.Size > 0 {
		err = q.judge(ctx, box, in, l)
	}
	if errors.Is(err, pack.ErrTooLarge) {
		return fmt.Errorf("push %w", err)
	}
	return err
}

// judge has a pack verified, and takes it in.
func (q *quarantine) judge(ctx context.Context, box *sandbox.Sandbox, in pack.Spooled, l pack.Limits) error {
	there := present{st: q.here, seen: &q.repo.seen, shapes: map[plumbing.Hash]shape{}}
	listing, err := in.Ask(ctx, box, readThere, there.answer, l)
	if err != nil {
		return err
	}
	if q.base, err = in.Place(q.dir, listing); err != nil || q.base == "" {
		return err
	}
	if q.new, err = pack.Open(filepath.Join(q.dir, q.base)); err != nil {
		return err
	}
	q.st = withPush{q.here, q.new}
	return nil
}

// promote moves the pack into the repository.
func (q *quarantine) promote() error {
	if q.base == "" {
		return nil
	}
	from := filepath.Join(q.dir, q.base)
	if err := pack.Place(from+".pack", from+".idx", filepath.Join(q.repo.dir, q.base)); err != nil {
		return err
	}
	q.base = ""
	return nil
}
