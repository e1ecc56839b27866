package source

import (
	"path"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// Op is what happened to a file between two trees.
type Op string

// The ops of a Change.
const (
	Added    Op = "added"
	Modified Op = "modified"
	Removed  Op = "removed"
)

// Change is one file that differs between two trees.
type Change struct {
	Path string
	Op   Op
	From string // blob before; "" when added
	To   string // blob after; "" when removed
}

// readTree returns the entries of a folder in the order of Git; those of the
// zero hash are none.
type readTree func(plumbing.Hash) ([]object.TreeEntry, error)

// compare lists what differs between two trees. Folders with the same hash are
// the same and are not read, so the cost is that of the change and not of the
// tree.
func compare(read readTree, a, b plumbing.Hash) ([]Change, error) {
	c := comparison{read: read}
	err := c.folder("", a, b)
	return c.changes, err
}

type comparison struct {
	read    readTree
	found   func(object.TreeEntry) error                   // if set, told of each new entry in place of changes
	differs func(name string, x, y object.TreeEntry) error // if set, told of each change in their place
	depth   int
	changes []Change
}

// folder merges the entries of two versions of a folder.
func (c *comparison) folder(name string, a, b plumbing.Hash) error {
	if a == b {
		return nil
	}
	if c.depth++; c.depth > maxDepth+1 {
		if c.differs != nil {
			return errNotPlain
		}
		return problem(ErrTooLarge, "folders lie in each other more than %d deep in %s: remove them", maxDepth, name[:min(len(name), 100)])
	}
	defer func() { c.depth-- }()
	from, err := c.read(a)
	if err != nil {
		return err
	}
	to, err := c.read(b)
	if err != nil {
		return err
	}
	for len(from) > 0 || len(to) > 0 {
		var x, y object.TreeEntry
		switch {
		case len(to) == 0 || len(from) > 0 && sortKey(from[0]) < sortKey(to[0]):
			x, from = from[0], from[1:]
		case len(from) == 0 || sortKey(to[0]) < sortKey(from[0]):
			y, to = to[0], to[1:]
		default:
			x, from, y, to = from[0], from[1:], to[0], to[1:]
		}
		if err := c.entry(name, x, y); err != nil {
			return err
		}
	}
	return nil
}

// sortKey is what Git orders entries by: a folder comes where its files do. A
// folder that replaces a file is therefore another entry.
func sortKey(e object.TreeEntry) string {
	if e.Mode == filemode.Dir {
		return e.Name + "/"
	}
	return e.Name
}

// entry compares two entries of one key; the zero entry stands for none.
func (c *comparison) entry(folder string, x, y object.TreeEntry) error {
	name := path.Join(folder, x.Name)
	if x.Name == "" {
		name = path.Join(folder, y.Name)
	}
	switch {
	case x.Mode == filemode.Dir || y.Mode == filemode.Dir:
		return c.folder(name, x.Hash, y.Hash)
	case c.differs != nil:
		if x.Hash != y.Hash || x.Mode != y.Mode {
			return c.differs(name, x, y)
		}
	case c.found != nil:
		if y.Name != "" && x.Hash != y.Hash {
			return c.found(y)
		}
	case x.Name == "":
		c.changes = append(c.changes, Change{Path: name, Op: Added, To: y.Hash.String()})
	case y.Name == "":
		c.changes = append(c.changes, Change{Path: name, Op: Removed, From: x.Hash.String()})
	case x.Hash != y.Hash || x.Mode != y.Mode:
		c.changes = append(c.changes, Change{Path: name, Op: Modified, From: x.Hash.String(), To: y.Hash.String()})
	}
	return nil
}
