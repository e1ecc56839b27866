package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"
)

// Writ is the origin of what is in no package.
const Writ = "writ"

// Entry is one file of a tree.
type Entry struct {
	// Mode has the type (regular file, directory or symbolic link) and the
	// permission bits with setuid, setgid and sticky.
	Mode     fs.FileMode
	UID, GID int
	Link     string // of a symbolic link, as written
	Data     Data   // of a regular file
	Origin   string // a package, or Writ
}

// Tree is a set of files by path. Paths are relative and clean: "usr/bin/mount".
// The root is there always and has no entry. Not for use by several goroutines.
type Tree struct{ entries map[string]Entry }

// New returns an empty tree.
func New() *Tree { return &Tree{entries: map[string]Entry{}} }

// Merged returns a tree with the links of a merged /usr and nothing else: what
// a package puts into /lib lands in /usr/lib.
func Merged() *Tree {
	t := New()
	for _, d := range []string{"bin", "lib", "lib64", "sbin"} {
		t.entries["usr"] = Entry{Mode: fs.ModeDir | 0o755, Origin: Writ}
		t.entries["usr/"+d] = Entry{Mode: fs.ModeDir | 0o755, Origin: Writ}
		t.entries[d] = Entry{Mode: fs.ModeSymlink | 0o777, Link: "usr/" + d, Origin: Writ}
	}
	return t
}

// Len is the number of files, directories and links.
func (t *Tree) Len() int { return len(t.entries) }

// Get returns the entry at a path as it is: links are not followed.
func (t *Tree) Get(at string) (Entry, bool) { e, ok := t.entries[at]; return e, ok }

// All goes through the tree in the order of paths: a directory comes before
// what it holds.
func (t *Tree) All() iter.Seq2[string, Entry] {
	paths := slices.Sorted(maps.Keys(t.entries))
	return func(yield func(string, Entry) bool) {
		for _, p := range paths {
			if !yield(p, t.entries[p]) {
				return
			}
		}
	}
}

// Add puts an entry at a path; directories above it that are not there are
// made. A link on the way is followed. What is there already is in the way,
// unless both are directories, of which the first stays, or equal links.
func (t *Tree) Add(at string, e Entry) error {
	at, err := t.place(at, e)
	if err != nil {
		return err
	}
	if was, ok := t.entries[at]; ok {
		if was.Mode.IsDir() && e.Mode.IsDir() || was.Link != "" && was.Link == e.Link {
			return nil
		}
		return fmt.Errorf("add %s of %s: it is there already, of %s", at, e.Origin, was.Origin)
	}
	t.entries[at] = e
	return nil
}

// Replace is Add that takes the place of a file or a link.
func (t *Tree) Replace(at string, e Entry) error {
	at, err := t.place(at, e)
	if err != nil {
		return err
	}
	if was, ok := t.entries[at]; ok && was.Mode.IsDir() != e.Mode.IsDir() {
		return fmt.Errorf("replace %s: a directory and a file do not take each other's place", at)
	}
	t.entries[at] = e
	return nil
}

// Remove takes away a path and all below it, and says whether it was there.
func (t *Tree) Remove(at string) bool {
	_, ok := t.entries[at]
	for p := range t.entries {
		if p == at || strings.HasPrefix(p, at+"/") {
			delete(t.entries, p)
		}
	}
	return ok
}

// File adds a regular file of our own.
func (t *Tree) File(at string, perm fs.FileMode, data []byte) error {
	return t.Add(at, Entry{Mode: perm, Data: Bytes(data), Origin: Writ})
}

// Dir adds a directory of our own.
func (t *Tree) Dir(at string, perm fs.FileMode) error {
	return t.Add(at, Entry{Mode: fs.ModeDir | perm, Origin: Writ})
}

// Symlink adds a symbolic link of our own.
func (t *Tree) Symlink(at, target string) error {
	return t.Add(at, Entry{Mode: fs.ModeSymlink | 0o777, Link: target, Origin: Writ})
}

const modeBits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// place checks an entry, finds where at really is, and makes the directories
// above it.
func (t *Tree) place(at string, e Entry) (string, error) {
	if !valid(at) {
		return "", fmt.Errorf("add %q: it is no path in a tree", at)
	}
	switch kind := e.Mode &^ modeBits; {
	case kind == 0 && e.Data.Open == nil:
		return "", fmt.Errorf("add %s: a file without content", at)
	case kind == fs.ModeSymlink && (e.Link == "" || strings.ContainsAny(e.Link, "\x00\n")):
		return "", fmt.Errorf("add %s: a link that leads to %q", at, e.Link)
	case kind != 0 && kind != fs.ModeSymlink && kind != fs.ModeDir:
		return "", fmt.Errorf("add %s: only files, directories and links are in a tree, not %v", at, e.Mode)
	}
	at, err := t.resolve(at, false)
	if err != nil {
		return "", fmt.Errorf("add %s: %w", at, err)
	}
	for i := range len(at) {
		if at[i] != '/' {
			continue
		}
		up, ok := t.entries[at[:i]]
		if ok && !up.Mode.IsDir() {
			return "", fmt.Errorf("add %s: %s is no directory", at, at[:i])
		} else if !ok {
			t.entries[at[:i]] = Entry{Mode: fs.ModeDir | 0o755, Origin: e.Origin}
		}
	}
	return at, nil
}

func valid(at string) bool {
	return fs.ValidPath(at) && at != "." && !strings.ContainsAny(at, "\x00\n")
}

// ErrLoop is of links that lead to each other.
var ErrLoop = errors.New("its links lead in a circle")

const maxLinks = 40 // as in Linux

// Resolve follows every link of a path, which may be absolute, and returns
// where it leads: "" when nothing is there. As in a chroot, ".." of the root
// is the root.
func (t *Tree) Resolve(at string) (string, error) {
	real, err := t.resolve(at, true)
	if _, ok := t.entries[real]; err != nil || !ok {
		return "", err
	}
	return real, nil
}

// resolve follows the links of a path; the last one only when it is asked to.
// What is not there is taken as it is written.
func (t *Tree) resolve(at string, last bool) (string, error) {
	todo := strings.Split(at, "/")
	now, links := "", 0
	for len(todo) > 0 {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if now = path.Dir(now); now == "." {
				now = ""
			}
			continue
		}
		next := path.Join(now, part)
		e := t.entries[next]
		if e.Mode&fs.ModeSymlink == 0 || len(todo) == 0 && !last {
			now = next
			continue
		}
		if links++; links > maxLinks {
			return at, ErrLoop
		}
		if path.IsAbs(e.Link) {
			now = ""
		}
		todo = append(strings.Split(e.Link, "/"), todo...)
	}
	return now, nil
}
