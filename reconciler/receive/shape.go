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
	depth uint8  // folders in each other, with this one
	path  uint16 // bytes of the longest path
}

// visit is a folder whose entries are looked at one by one.
type visit struct {
	hash    plumbing.Hash
	folders []entry
	is      shape
}

// measure finds the shape of a folder: look reads one, known says what the shape of
// one is that was measured before, and note is told of each. It calls nothing for
// each level: the stack is bounded by maxDepth.
func measure(h plumbing.Hash, look func(plumbing.Hash) (visit, error), known func(plumbing.Hash) (shape, bool), note func(plumbing.Hash, shape)) error {
	if _, ok := known(h); ok {
		return nil
	}
	stack := make([]visit, 0, 16)
	v, err := look(h)
	if err != nil {
		return err
	}
	stack = append(stack, v)
	for {
		top := &stack[len(stack)-1]
		if len(top.folders) == 0 {
			note(top.hash, top.is)
			if stack = stack[:len(stack)-1]; len(stack) == 0 {
				return nil
			}
			continue
		}
		e := top.folders[0]
		below, ok := known(e.hash)
		if !ok {
			if len(stack) == maxDepth {
				return tooDeep(stack[0].hash)
			}
			v, err := look(e.hash)
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

// visited makes a visit of the entries of a folder.
func visited(h plumbing.Hash, entries []entry) (visit, error) {
	v := visit{hash: h, is: shape{depth: 1}}
	if len(entries) > maxEntries {
		return v, fmt.Errorf("read tree %s: has %d entries: a folder may have %d", h, len(entries), maxEntries)
	}
	for _, e := range entries {
		switch e.mode {
		case filemode.Submodule:
		case filemode.Dir:
			v.folders = append(v.folders, e)
		default:
			v.is.path = max(v.is.path, uint16(len(e.name))) //nolint:gosec // 255 at most
		}
	}
	return v, nil
}

// folder verifies a new folder with all that is new below it: its entries, what
// they refer to, and how deep it goes with the old folders below it.
func (c *connection) folder(h plumbing.Hash) error {
	return measure(h, c.visit, func(h plumbing.Hash) (shape, bool) { is, ok := c.shapes[h]; return is, ok },
		func(h plumbing.Hash, is shape) { c.shapes[h] = is })
}

// visit reads a new folder, and verifies what it refers to.
func (c *connection) visit(h plumbing.Hash) (visit, error) {
	e, err := c.pack.Get(h)
	if err != nil {
		return visit{}, fmt.Errorf("read tree %s: %w", h, err)
	}
	entries, err := treeOf(e)
	if err != nil {
		return visit{}, err
	}
	v, err := visited(h, entries)
	if err != nil {
		return v, err
	}
	refs := make([]reference, 0, len(entries))
	for _, e := range entries {
		switch e.mode {
		case filemode.Submodule:
		case filemode.Dir:
			refs = append(refs, reference{e.hash, plumbing.TreeObject})
		default:
			refs = append(refs, reference{e.hash, plumbing.BlobObject})
		}
	}
	return v, c.need(h, refs...)
}
