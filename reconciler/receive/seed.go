package receive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sort"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/memory"
)

// Seed makes the first commit of a repository from files, if it is empty.
// Otherwise it returns the commit the branch is at. Neither Check nor Pushed
// is called: the files are the cluster's own.
func (r *Remote) Seed(name string, files fs.FS, message string) (sha string, err error) {
	repo := r.repos[name]
	if repo == nil {
		return "", fmt.Errorf("seed repository %s: not served here", name)
	}
	now, err := repo.refs()
	if err != nil {
		return "", fmt.Errorf("seed repository %s: %w", name, err)
	}
	if at, ok := now[r.branch()]; ok {
		return at, nil
	}
	commit, pack, err := firstCommit(files, message, time.Now())
	if err != nil {
		return "", fmt.Errorf("seed repository %s: %w", name, err)
	}
	q, err := repo.quarantine(r.branch())
	if err != nil {
		return "", fmt.Errorf("seed repository %s: %w", name, err)
	}
	defer q.close()
	if err := q.receive(context.Background(), nil, bytes.NewReader(pack), r.limits()); err != nil {
		return "", fmt.Errorf("seed repository %s: %w", name, err)
	}
	v := []verdict{{command: command{ref: ref{r.branch(), commit.String()}, old: zeroSHA}}}
	repo.move(q, v, true)
	if v[0].reason != "" {
		return "", fmt.Errorf("seed repository %s: %w", name, errors.Join(errors.New(v[0].reason), v[0].err))
	}
	return commit.String(), nil
}

// firstCommit makes a commit without parents and the pack that holds it.
func firstCommit(files fs.FS, message string, at time.Time) (plumbing.Hash, []byte, error) {
	st := memory.NewStorage()
	tree, err := storeTree(st, files, ".")
	if err != nil {
		return plumbing.ZeroHash, nil, err
	}
	who := object.Signature{Name: "Writ", Email: "writ@localhost", When: at.UTC().Truncate(time.Second)}
	c := &object.Commit{Author: who, Committer: who, Message: message + "\n", TreeHash: tree}
	commit, err := storeObject(st, c)
	if err != nil {
		return plumbing.ZeroHash, nil, err
	}
	var objs []plumbing.Hash
	for h := range st.Objects {
		objs = append(objs, h)
	}
	sort.Slice(objs, func(i, j int) bool { return bytes.Compare(objs[i][:], objs[j][:]) < 0 })
	var pack bytes.Buffer
	err = streamPack(&pack, st, objs)
	return commit, pack.Bytes(), err
}

// storeTree stores a folder of files; links and devices are left out.
func storeTree(st *memory.Storage, files fs.FS, dir string) (plumbing.Hash, error) {
	entries, err := fs.ReadDir(files, dir)
	if err != nil {
		return plumbing.ZeroHash, fmt.Errorf("read files: %w", err)
	}
	t := &object.Tree{}
	for _, e := range entries {
		line, name := object.TreeEntry{Name: e.Name()}, path.Join(dir, e.Name())
		switch {
		case e.IsDir():
			line.Mode = filemode.Dir
			line.Hash, err = storeTree(st, files, name)
		case e.Type().IsRegular():
			line.Mode = filemode.Regular
			line.Hash, err = storeBlob(st, files, name)
		default:
			continue
		}
		if err != nil {
			return plumbing.ZeroHash, err
		}
		t.Entries = append(t.Entries, line)
	}
	sort.Sort(object.TreeEntrySorter(t.Entries))
	return storeObject(st, t)
}

func storeBlob(st *memory.Storage, files fs.FS, name string) (plumbing.Hash, error) {
	b, err := fs.ReadFile(files, name)
	if err != nil {
		return plumbing.ZeroHash, fmt.Errorf("read files: %w", err)
	}
	o := st.NewEncodedObject()
	o.SetType(plumbing.BlobObject)
	w, err := o.Writer()
	if err != nil {
		return plumbing.ZeroHash, err
	}
	if _, err := w.Write(b); err != nil {
		return plumbing.ZeroHash, err
	}
	return st.SetEncodedObject(o)
}

// storeObject stores a commit or a tree.
func storeObject(st *memory.Storage, v interface {
	Encode(plumbing.EncodedObject) error
}) (plumbing.Hash, error) {
	o := st.NewEncodedObject()
	if err := v.Encode(o); err != nil {
		return plumbing.ZeroHash, err
	}
	return st.SetEncodedObject(o)
}
