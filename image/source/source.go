package source

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/writ-os/writ/image/deb"
	"github.com/writ-os/writ/image/lock"
	"github.com/writ-os/writ/image/tree"
)

// Source is what all packages of a lock hold.
type Source struct {
	Lock *lock.Lock
	// Tree has every file of every package; the origin of each is the name of
	// its package. It is some 200 MB of memory.
	Tree *tree.Tree
	// Packages are what the packages say of themselves, in the order of the lock.
	Packages []deb.Control
}

type unpacked struct {
	control deb.Control
	files   []placed
}

type placed struct {
	at string
	e  tree.Entry
	// hard is the path of the file that this one is the same as.
	hard string
}

// Load unpacks all packages of a lock out of the cache in dir.
func Load(ctx context.Context, dir string, l *lock.Lock) (*Source, error) {
	all := make([]unpacked, len(l.Packages))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, p := range l.Packages {
		g.Go(func() (err error) {
			if err := ctx.Err(); err != nil {
				return err
			}
			all[i], err = unpack(dir, p)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	s := &Source{Lock: l, Tree: tree.Merged()}
	// One after the other: which directory comes first must not depend on who
	// was fastest.
	for _, u := range all {
		s.Packages = append(s.Packages, u.control)
		if err := s.add(u); err != nil {
			return nil, fmt.Errorf("unpack %s: %w", u.control.Name, err)
		}
	}
	return s, nil
}

func unpack(dir string, p lock.Package) (unpacked, error) {
	b, err := lock.Read(dir, p)
	if err != nil {
		return unpacked{}, err
	}
	d, err := deb.Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return unpacked{}, fmt.Errorf("unpack %s: %w", p, err)
	}
	c := d.Control
	if c.Name != p.Name || c.Version != p.Version || c.Arch != p.Arch {
		return unpacked{}, fmt.Errorf("unpack %s: the package says that it is %s %s %s", p, c.Name, c.Version, c.Arch)
	}
	u := unpacked{control: c}
	err = d.Walk(func(f *deb.File, r io.Reader) error {
		e := placed{at: f.Path, e: tree.Entry{Mode: f.Mode, UID: f.UID, GID: f.GID, Link: f.Link, Origin: p.Name}}
		if f.Hard {
			e.hard, e.e.Link = f.Link, ""
		} else if f.Mode.IsRegular() {
			content := make([]byte, f.Size)
			if _, err := io.ReadFull(r, content); err != nil {
				return err
			}
			e.e.Data = tree.Bytes(content)
		}
		u.files = append(u.files, e)
		return nil
	})
	return u, err
}

func (s *Source) add(u unpacked) error {
	for _, f := range u.files {
		if f.hard != "" {
			real, err := s.Tree.Resolve(f.hard)
			if err != nil {
				return err
			}
			same, ok := s.Tree.Get(real)
			if !ok || !same.Mode.IsRegular() {
				return fmt.Errorf("%s is the same file as %s: %w", f.at, f.hard, fs.ErrNotExist)
			}
			f.e = same
		}
		if err := s.Tree.Add(f.at, f.e); err != nil {
			return err
		}
	}
	return nil
}
