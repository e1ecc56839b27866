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
)

// entry is one line of a tree.
type entry struct {
	name string
	mode filemode.FileMode
	hash plumbing.Hash
}

// readTree reads a tree and refuses names that no file can have.
func readTree(st storer.EncodedObjectStorer, h plumbing.Hash) ([]entry, error) {
	o, err := st.EncodedObject(plumbing.TreeObject, h)
	if err != nil {
		return nil, fmt.Errorf("read tree %s: %w", h, err)
	}
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

func parseTree(b []byte) ([]entry, error) {
	var entries []entry
	for len(b) > 0 {
		head, rest, ok := bytes.Cut(b, []byte{0})
		mode, name, named := strings.Cut(string(head), " ")
		if !ok || !named || len(rest) < 20 {
			return nil, errors.New("malformed entry")
		}
		if name == "" || name == "." || name == ".." || strings.EqualFold(name, ".git") || strings.Contains(name, "/") {
			return nil, fmt.Errorf("entry %q is no name for a file", name)
		}
		m, err := filemode.New(mode)
		if err != nil {
			return nil, fmt.Errorf("entry %q: %w", name, err)
		}
		e := entry{name: name, mode: m, hash: plumbing.Hash(rest[:20])}
		entries, b = append(entries, e), rest[20:]
	}
	return entries, nil
}
