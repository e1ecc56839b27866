package receive

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
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
	objs []packed
	st   *objects
}

// errTooLarge refuses a pack over a bound.
var errTooLarge = errors.New("push too large")

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
func (q *quarantine) receive(r io.Reader, limit int64) error {
	tmp := filepath.Join(q.dir, "incoming.pack")
	size, err := spool(tmp, r, limit)
	if err != nil {
		return err
	}
	if size > 0 {
		if err := q.index(tmp, size, limit); err != nil {
			return err
		}
	}
	q.st = openObjects(q.dir)
	return connected(q.st, q.objs)
}

// spool writes r to a file, as far as the bound allows. What is over the
// bound is read and dropped for a while: a client that is still sending
// would not hear the answer.
func spool(path string, r io.Reader, limit int64) (int64, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o644)
	if err != nil {
		return 0, fmt.Errorf("store pack: %w", err)
	}
	n, err := io.Copy(f, io.LimitReader(r, limit))
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return 0, fmt.Errorf("store pack: %w", err)
	}
	if over, _ := io.CopyN(io.Discard, r, 4*limit); over > 0 {
		return 0, fmt.Errorf("%w: a push may bring %d MiB", errTooLarge, (limit+1<<20-1)>>20)
	}
	return n, nil
}

// index verifies the pack file, writes its index and gives both their names.
func (q *quarantine) index(path string, size, limit int64) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("index pack: %w", err)
	}
	defer f.Close()
	count, err := checkBounds(f, size, limit)
	if err != nil || count == 0 {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("index pack: %w", err)
	}
	idx, list := new(idxfile.Writer), new(objectLister)
	p, err := packfile.NewParser(packfile.NewScanner(f), idx, list)
	if err != nil {
		return fmt.Errorf("index pack: %w", err)
	}
	sum, err := p.Parse()
	if err != nil {
		return fmt.Errorf("index pack: %w", err)
	}
	if err := endsWith(f, size, sum); err != nil {
		return err
	}
	q.base, q.objs = filepath.Join("objects", "pack", "pack-"+sum.String()), list.objs
	return q.writeIndex(path, idx)
}

func (q *quarantine) writeIndex(pack string, w *idxfile.Writer) error {
	index, err := w.Index()
	if err != nil {
		return fmt.Errorf("index pack: %w", err)
	}
	tmp := filepath.Join(q.dir, "incoming.idx")
	if err := writeIndex(tmp, index); err != nil {
		return err
	}
	return placePack(pack, tmp, filepath.Join(q.dir, q.base))
}

// endsWith verifies that the last thing in the file is the pack's sum: bytes
// after it would belong to no object.
func endsWith(f *os.File, size int64, sum plumbing.Hash) error {
	var tail plumbing.Hash
	if _, err := f.ReadAt(tail[:], size-int64(len(tail))); err != nil {
		return fmt.Errorf("index pack: %w", err)
	}
	if tail != sum {
		return fmt.Errorf("index pack: %w: bytes after the end", packfile.ErrMalformedPackFile)
	}
	return nil
}

// promote moves the pack into the repository.
func (q *quarantine) promote() error {
	if q.base == "" {
		return nil
	}
	from := filepath.Join(q.dir, q.base)
	if err := placePack(from+".pack", from+".idx", filepath.Join(q.repo.dir, q.base)); err != nil {
		return err
	}
	q.base = ""
	return nil
}
