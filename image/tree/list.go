package tree

import (
	"bufio"
	"fmt"
	"io"
	"path"
	"strings"
)

// List is a list of patterns, read from a file that people write.
//
//	# a comment
//	[systemd]                  a section; it is for the reader alone
//	usr/bin/systemctl          a file or a link; * ? [a-z] as in a shell, never across /
//	usr/lib/udev/rules.d/      a directory and all below it
//	!usr/lib/udev/rules.d/*x*  not these of what the lines above took
//	?usr/bin/nft               may be there or not
//
// A line that matches nothing is an error, so that a renamed file is noticed.
type List struct{ patterns []pattern }

type pattern struct {
	text, at      string // as written without its sign; file:line
	not, optional bool
	dir, exact    bool
}

const maxPatterns = 5000

// ParseList reads a list; name is the file in errors.
func ParseList(name string, r io.Reader) (*List, error) {
	l := &List{}
	line := 0
	sc := bufio.NewScanner(r)
	for sc.Scan() {
		line++
		at := fmt.Sprintf("%s:%d", name, line)
		text, _, _ := strings.Cut(sc.Text(), "#")
		text = strings.TrimSpace(text)
		if inner, ok := strings.CutPrefix(text, "["); ok && strings.HasSuffix(inner, "]") && !strings.Contains(inner, "/") {
			continue
		}
		if text == "" {
			continue
		}
		p, err := parsePattern(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		p.at = at
		if l.patterns = append(l.patterns, p); len(l.patterns) > maxPatterns {
			return nil, fmt.Errorf("%s: there are more than %d patterns", at, maxPatterns)
		}
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", name, line+1, err)
	}
	return l, nil
}

func parsePattern(text string) (pattern, error) {
	p := pattern{}
	switch text[0] {
	case '!':
		p.not, text = true, strings.TrimSpace(text[1:])
	case '?':
		p.optional, text = true, strings.TrimSpace(text[1:])
	}
	p.text = text
	bare := strings.TrimSuffix(text, "/")
	p.dir = bare != text
	p.exact = !strings.ContainsAny(text, `*?[\`)
	if _, err := path.Match(bare, ""); err != nil {
		return p, fmt.Errorf("%s is no pattern: %w", text, err)
	}
	if !valid(bare) {
		return p, fmt.Errorf("%q is no path in a tree: write it without a leading slash", text)
	}
	return p, nil
}

// matches says whether the pattern takes a path.
func (p pattern) matches(at string) bool {
	bare := strings.TrimSuffix(p.text, "/")
	if !p.dir {
		ok, _ := path.Match(bare, at)
		return ok
	}
	// The pattern of a directory is held against as many parts as it has.
	depth := strings.Count(bare, "/") + 1
	for i := range len(at) {
		if at[i] == '/' {
			if depth--; depth == 0 {
				at = at[:i]
				break
			}
		}
	}
	ok, _ := path.Match(bare, at)
	return ok
}

// find returns the paths of t that the pattern takes, sorted.
func (p pattern) find(t *Tree, paths []string) []string {
	if p.exact && !p.dir {
		paths = []string{p.text}
	}
	var found []string
	for _, at := range paths {
		e, ok := t.entries[at]
		if ok && (p.dir || !e.Mode.IsDir()) && p.matches(at) {
			found = append(found, at)
		}
	}
	return found
}
