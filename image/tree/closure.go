package tree

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// libDirs are where the loader of Debian's libc looks by itself: no
// ld.so.cache is needed for them.
var libDirs = []string{"usr/lib/x86_64-linux-gnu", "usr/lib"}

// Missing is a library that a file needs and no package has.
type Missing struct {
	Library string
	By      string // the file that needs it
	Origin  string // its package
}

func (m *Missing) Error() string {
	return fmt.Sprintf("%s of %s needs %s, which no package of the lock has", m.By, m.Origin, m.Library)
}

// Closure is what Tree.Closure found besides.
type Closure struct {
	Added []string // libraries that were copied, sorted
	// Absent are the libraries that files of the tree would load if they were
	// there, and none of whose names is: features that are off.
	Absent []Dlopen
}

// Closure copies from src every library and loader that the ELF files of t
// need, directly or through others. The error joins a *Missing for each that
// is not there.
func (t *Tree) Closure(src *Tree) (*Closure, error) {
	c := &closing{t: t, src: src, seen: map[string]bool{}, out: &Closure{}}
	// Programs first, for it is they who say where to look; then the libraries
	// that no program of the tree loads at its start.
	for _, first := range []bool{true, false} {
		for at, e := range t.All() {
			if e.Mode.IsRegular() && !c.seen[at] {
				bin, err := t.program(at)
				if err != nil && first {
					c.wrong = append(c.wrong, err)
				} else if bin != nil && (bin.interp != "") == first {
					c.queue(at, nil)
				}
			}
		}
		c.drain()
	}
	slices.Sort(c.out.Added)
	c.out.Added = slices.Compact(c.out.Added)
	for _, d := range c.optional {
		if !slices.ContainsFunc(d.Sonames, t.hasLibrary) {
			c.out.Absent = append(c.out.Absent, d)
		}
	}
	return c.out, errors.Join(c.wrong...)
}

type closing struct {
	t, src   *Tree
	todo     []loaded
	seen     map[string]bool
	optional []Dlopen
	wrong    []error
	out      *Closure
}

// loaded is a file to look at. A library finds what the program that loads it
// has loaded before, wherever that lies, so it inherits where to look: systemd
// keeps libraries of its own and says so in its programs only.
type loaded struct {
	at        string
	inherited []string
}

func (c *closing) queue(at string, search []string) {
	c.todo, c.seen[at] = append(c.todo, loaded{at, search}), true
}

func (c *closing) drain() {
	for ; len(c.todo) > 0; c.todo = c.todo[1:] {
		if err := c.look(c.todo[0]); err != nil {
			c.wrong = append(c.wrong, err)
		}
	}
}

// look queues what one file loads.
func (c *closing) look(f loaded) error {
	bin, err := c.t.program(f.at)
	if err != nil || bin == nil {
		return err
	}
	c.optional = append(c.optional, bin.dlopen...)
	search := slices.Concat(bin.search, f.inherited)
	for _, lib := range bin.loads() {
		found, added, err := c.t.addLibrary(c.src, search, lib)
		switch {
		case err != nil:
			return fmt.Errorf("%s needs %s: %w", f.at, lib, err)
		case found == "":
			c.wrong = append(c.wrong, &Missing{Library: lib, By: f.at, Origin: c.t.entries[f.at].Origin})
		case !c.seen[found]:
			c.queue(found, search)
		}
		if added {
			c.out.Added = append(c.out.Added, found)
		}
	}
	return nil
}

// addLibrary finds a library as the loader would, in t or else in src, and
// returns the file that it is, "" when there is none, and whether it is new.
func (t *Tree) addLibrary(src *Tree, search []string, lib string) (found string, added bool, err error) {
	candidates := []string{lib}
	if !strings.Contains(lib, "/") {
		candidates = nil
		for _, dir := range slices.Concat(search, libDirs) {
			candidates = append(candidates, path.Join(dir, lib))
		}
	}
	for _, name := range candidates {
		for _, from := range []*Tree{t, src} {
			// The directory first: the path of a loader leads through /lib64.
			at, err := from.resolve(name, false)
			if err != nil {
				return "", false, err
			}
			if e, ok := from.entries[at]; !ok || e.Mode.IsDir() {
				continue
			}
			if from == src {
				if err := t.copy(src, at, 0); err != nil {
					return "", false, err
				}
			}
			found, err = t.Resolve(at)
			return found, from == src, err
		}
	}
	return "", false, nil
}

func (t *Tree) hasLibrary(soname string) bool {
	return slices.ContainsFunc(libDirs, func(dir string) bool {
		real, err := t.Resolve(path.Join(dir, soname))
		return err == nil && real != ""
	})
}

// program reads the ELF file at a path; nil when it is something else.
func (t *Tree) program(at string) (*program, error) {
	d := t.entries[at].Data
	if ok, err := d.begins(elfMagic); err != nil {
		return nil, fmt.Errorf("read %s: %w", at, err)
	} else if !ok {
		return nil, nil
	}
	b, err := d.bytes()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", at, err)
	}
	bin, err := readProgram(at, b)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", at, err)
	}
	return bin, nil
}

func (p *program) loads() []string {
	if p.interp == "" {
		return p.needed
	}
	return append([]string{p.interp}, p.needed...)
}
