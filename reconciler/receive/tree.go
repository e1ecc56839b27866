package receive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/storer"

	"github.com/writ-os/writ/reconciler/source/pack"
)

// entry is one line of a tree.
type entry struct {
	name string
	mode filemode.FileMode
	hash plumbing.Hash
}

// key is what Git orders entries by: a folder comes where its files do.
func (e entry) key() string {
	if e.mode == filemode.Dir {
		return e.name + "/"
	}
	return e.name
}

// twice says whether a file before the folder e has its name.
func (e entry) twice(before []entry) bool {
	for i := len(before) - 1; e.mode == filemode.Dir && i >= 0 && strings.HasPrefix(before[i].name, e.name); i-- {
		if before[i].name == e.name {
			return true
		}
	}
	return false
}

// readTree reads a tree and refuses names that no file can have.
func readTree(st storer.EncodedObjectStorer, h plumbing.Hash) ([]entry, error) {
	o, err := st.EncodedObject(plumbing.TreeObject, h)
	if err != nil {
		return nil, fmt.Errorf("read tree %s: %w", h, err)
	}
	return treeOf(o)
}

func treeOf(o plumbing.EncodedObject) ([]entry, error) {
	h := o.Hash()
	r, err := o.Reader()
	if err != nil {
		return nil, fmt.Errorf("read tree %s: %w", h, err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read tree %s: %w", h, err)
	}
	entries, err := parseTree(b)
	if err != nil {
		return nil, fmt.Errorf("read tree %s: %w", h, err)
	}
	return entries, nil
}

// modes are those that git writes; git fsck finds fault with all others. What had
// been written before there were rules, 100664, is read as 100644.
var modes = map[string]filemode.FileMode{
	"100644": filemode.Regular, "100664": filemode.Deprecated, "100755": filemode.Executable,
	"120000": filemode.Symlink, "40000": filemode.Dir, "160000": filemode.Submodule,
}

// readByGit says whether git, on some system, reads the file of this name in a
// work tree for itself: a link would have it read another one (fsck's
// gitmodulesSymlink and its like).
func readByGit(name string) bool {
	plain := pack.Plain(name)
	switch plain {
	case ".gitmodules", ".gitattributes", ".gitignore", ".mailmap", "gitmod~1", "gitatt~1", "gitign~1", "mailma~1":
		return true
	}
	return false
}

func parseTree(b []byte) ([]entry, error) {
	var entries []entry
	for len(b) > 0 {
		head, rest, ok := bytes.Cut(b, []byte{0})
		mode, name, named := strings.Cut(string(head), " ")
		if !ok || !named || len(rest) < 20 {
			return nil, errors.New("malformed entry")
		}
		if why := pack.CheckName(name); why != "" {
			return nil, errors.New(why)
		}
		m, ok := modes[mode]
		if !ok {
			return nil, fmt.Errorf("entry %q has the mode %q: files have 100644 or 100755, links 120000, folders 40000, submodules 160000", name, mode)
		}
		if m == filemode.Symlink && readByGit(name) {
			return nil, fmt.Errorf("entry %q is a symbolic link: git reads it as a file of its own", name)
		}
		e := entry{name: name, mode: m, hash: plumbing.Hash(rest[:20])}
		if n := len(entries); n > 0 && (entries[n-1].key() >= e.key() || e.twice(entries)) {
			return nil, fmt.Errorf("entry %q stands twice, or in the wrong place", name)
		}
		entries, b = append(entries, e), rest[20:]
	}
	return entries, nil
}
