package render

import (
	"io"
	"iter"
)

// counting counts the files that are opened.
type counting struct {
	memTree
	reads *int
}

func (c counting) Walk() iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		for f, err := range c.memTree.Walk() {
			open := f.Open
			f.Open = func() (io.ReadCloser, error) {
				if c.reads != nil {
					*c.reads++
				}
				return open()
			}
			if !yield(f, err) {
				return
			}
		}
	}
}
