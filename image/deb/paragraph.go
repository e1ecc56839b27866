package deb

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
)

const (
	maxLine      = 1 << 20 // a field of Packages is some kilobytes
	maxParagraph = 4 << 20 // a Release file is one paragraph
)

// Paragraph is one block of fields of a control file, deb822(5). Names are
// kept as written; Debian writes them in one way only. The lines of a folded
// field are joined by "\n" without their leading space.
type Paragraph map[string]string

// Paragraphs reads the blocks of a control file, a Packages index or a Release
// file. It ends after the first error.
func Paragraphs(r io.Reader) iter.Seq2[Paragraph, error] {
	return func(yield func(Paragraph, error) bool) {
		sc := bufio.NewScanner(r)
		sc.Buffer(make([]byte, 0, 64<<10), maxLine)
		p, last, size := Paragraph{}, "", 0
		for line := 1; sc.Scan(); line++ {
			text := strings.TrimRight(sc.Text(), " \t\r")
			if text == "" {
				if len(p) > 0 && !yield(p, nil) {
					return
				}
				p, last, size = Paragraph{}, "", 0
				continue
			}
			if size += len(text); size > maxParagraph {
				yield(nil, fmt.Errorf("line %d: the paragraph is larger than %d bytes", line, maxParagraph))
				return
			}
			var err error
			if last, err = p.add(last, text); err != nil {
				yield(nil, fmt.Errorf("line %d: %w", line, err))
				return
			}
		}
		if err := sc.Err(); err != nil {
			yield(nil, err)
		} else if len(p) > 0 {
			yield(p, nil)
		}
	}
}

// add takes one line into p and returns the name of the field that it is part
// of; last is that of the line before.
func (p Paragraph) add(last, text string) (string, error) {
	switch text[0] {
	case '#':
		return last, nil
	case ' ', '\t':
		if last == "" {
			return "", errors.New("a continued line begins the paragraph")
		}
		p[last] += "\n" + text[1:]
		return last, nil
	}
	name, value, ok := strings.Cut(text, ":")
	if !ok || name == "" || strings.ContainsAny(name, " \t") {
		return "", fmt.Errorf("%.60q is no field", text)
	}
	if _, twice := p[name]; twice {
		return "", fmt.Errorf("the field %s is there twice", name)
	}
	p[name] = strings.TrimLeft(value, " \t")
	return name, nil
}
