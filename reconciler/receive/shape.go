package receive

import (
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
)

// Bounds of folders. Who reads them walks them, and a path is an argument of
// system calls: PATH_MAX of Linux. The reconciler follows no deeper ones either.
const (
	maxDepth   = 100
	maxPath    = 4096    // bytes
	maxEntries = 100_000 // of one folder
)

// shape is how much lies below a folder.
type shape struct {
	depth uint8  // folders in each other, with this one; 0 while it is not known
	path  uint16 // bytes of the longest path
}

// unknownShape is that of a new folder, which is verified when it is first met.
var unknownShape = shape{}

// visit is a folder whose entries are looked at one by one.
type visit struct {
	hash    plumbing.Hash
	fresh   bool // came with this push
	folders []entry
	is      shape
}

// folder verifies a new folder with all that is new below it: its entries, what
// they refer to, and how deep it goes with the old folders below it. It calls
// nothing for each level: the stack is bounded by maxDepth.
func (c *connection) folder(h plumbing.Hash) error {
	if c.shapes[h] != unknownShape {
		return nil
	}
	stack := make([]visit, 0, 16)
	v, err := c.visit(h)
	if err != nil {
		return err
	}
	stack = append(stack, v)
	for {
		top := &stack[len(stack)-1]
		if len(top.folders) == 0 {
			c.shapes[top.hash] = top.is
			if !top.fresh {
				c.seen.noteShape(top.hash, top.is)
			}
			if stack = stack[:len(stack)-1]; len(stack) == 0 {
				return nil
			}
			continue
		}
		e := top.folders[0]
		below, ok := c.shapeOf(e.hash)
		if !ok {
			if len(stack) == maxDepth {
				return tooDeep(stack[0].hash)
			}
			v, err := c.visit(e.hash)
			if err != nil {
				return err
			}
			stack = append(stack, v)
			continue
		}
		top.folders = top.folders[1:]
		if top.is.depth = max(top.is.depth, below.depth+1); top.is.depth > maxDepth {
			return tooDeep(top.hash)
		}
		long := len(e.name) + 1 + int(below.path)
		if long > maxPath {
			return fmt.Errorf("read tree %s: a path below it has %d bytes: systems take %d", top.hash, long, maxPath)
		}
		top.is.path = max(top.is.path, uint16(long)) //nolint:gosec // maxPath is less
	}
}

func tooDeep(h plumbing.Hash) error {
	return fmt.Errorf("read tree %s: folders lie in each other more than %d deep", h, maxDepth)
}

// shapeOf is that of a folder that was visited in this push or one before.
func (c *connection) shapeOf(h plumbing.Hash) (shape, bool) {
	is, here := c.shapes[h]
	if here {
		return is, is != unknownShape
	}
	return c.seen.shape(h)
}

// visit reads a folder, and verifies what a new one refers to.
func (c *connection) visit(h plumbing.Hash) (visit, error) {
	is, fresh := c.shapes[h]
	v := visit{hash: h, fresh: fresh && is == unknownShape, is: shape{depth: 1}}
	entries, err := readTree(c.st, h)
	if err != nil {
		return v, err
	}
	if len(entries) > maxEntries {
		return v, fmt.Errorf("read tree %s: has %d entries: a folder may have %d", h, len(entries), maxEntries)
	}
	for _, e := range entries {
		kind := plumbing.BlobObject
		switch e.mode {
		case filemode.Submodule:
			continue
		case filemode.Dir:
			kind = plumbing.TreeObject
			v.folders = append(v.folders, e)
		default:
			v.is.path = max(v.is.path, uint16(len(e.name))) //nolint:gosec // 255 at most
		}
		if !v.fresh {
			continue
		}
		if err := c.need(h, e.hash, kind); err != nil {
			return v, err
		}
	}
	return v, nil
}
