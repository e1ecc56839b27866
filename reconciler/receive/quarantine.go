package receive

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

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
	objs []pack.Object
	st   *objects
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
	if q.st != nil {
		_ = q.st.Close()
	}
	return os.RemoveAll(q.dir)
}

// receive stores the pack that r carries and verifies it: its sums, its
// bounds, and that every object has all it refers to. No bytes at all, or a
// pack without objects, are a push of objects that are already here.
func (q *quarantine) receive(r io.Reader, l pack.Limits) error {
	tmp := filepath.Join(q.dir, "incoming.pack")
	n, err := pack.Spool(tmp, r, l)
	if errors.Is(err, pack.ErrTooLarge) {
		// A client that is still sending would not hear the answer: some of
		// what is left is read and dropped.
		_, _ = io.CopyN(io.Discard, r, 4*l.Size)
	}
	if err == nil && n > 0 {
		q.base, q.objs, err = pack.Store(tmp, q.dir, l)
	}
	if errors.Is(err, pack.ErrTooLarge) {
		return fmt.Errorf("push %w", err)
	}
	if err != nil {
		return err
	}
	q.st = openObjects(q.dir)
	return connected(q.st, q.objs, &q.repo.seen)
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
