package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// Copy puts what the list takes from src into t, with what links lead to and
// the directories above. What is in t already stays as it is. It says of every
// line that is wrong what is wrong.
func (t *Tree) Copy(src *Tree, l *List) error {
	taken, err := l.take(src)
	if err != nil {
		return err
	}
	var wrong []error
	for _, at := range slices.Sorted(maps.Keys(taken)) {
		if err := t.copy(src, at, 0); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", taken[at], err))
		}
	}
	return errors.Join(wrong...)
}

// take decides which paths of src a list takes, and by which line.
func (l *List) take(src *Tree) (map[string]string, error) {
	paths := slices.Sorted(maps.Keys(src.entries))
	taken := map[string]string{}
	var wrong []error
	for _, p := range l.patterns {
		found := p.find(src, paths)
		hit := false
		for _, at := range found {
			switch _, have := taken[at]; {
			case p.not && have:
				delete(taken, at)
				hit = true
			case !p.not:
				taken[at] = p.at
				hit = true
			}
		}
		if !hit && !p.optional {
			wrong = append(wrong, fmt.Errorf("%s: %s", p.at, p.nothing(src)))
		}
	}
	return taken, errors.Join(wrong...)
}

// nothing says that a pattern matches nothing, and what it may have meant.
func (p pattern) nothing(src *Tree) string {
	if p.not {
		return p.text + " takes nothing away: no line above takes it"
	}
	if e, ok := src.entries[p.text]; ok && e.Mode.IsDir() {
		return p.text + " is a directory: write it with a slash at its end"
	}
	base := path.Base(p.text)
	for at, e := range src.All() {
		if path.Base(at) == base {
			return fmt.Sprintf("no package has %s; %s has %s", p.text, e.Origin, at)
		}
	}
	return "no package has " + p.text
}

// running are the directories that are filled only in a running system.
var running = []string{"dev", "proc", "run", "sys", "tmp"}

// copy takes one path over, and what it leads to if it is a link.
func (t *Tree) copy(src *Tree, at string, links int) error {
	for i := range len(at) {
		if at[i] == '/' {
			if _, ok := t.entries[at[:i]]; !ok {
				t.entries[at[:i]] = src.entries[at[:i]]
			}
		}
	}
	e := src.entries[at]
	if _, ok := t.entries[at]; !ok {
		t.entries[at] = e
	}
	if e.Mode&fs.ModeSymlink == 0 {
		return nil
	}
	if links++; links > maxLinks {
		return fmt.Errorf("%s: %w", at, ErrLoop)
	}
	to := e.Link
	if !path.IsAbs(to) {
		to = path.Join(path.Dir(at), to)
	}
	// Links on the way are of the merged /usr, which the tree has anyway; the
	// last one is copied like any other.
	to, err := src.resolve(to, false)
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	if _, ok := src.entries[to]; ok {
		return t.copy(src, to, links)
	}
	if first, _, _ := strings.Cut(to, "/"); slices.Contains(running, first) {
		return nil
	}
	return fmt.Errorf("%s leads to %s, which no package has", at, to)
}
