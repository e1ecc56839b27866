package secret

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxTokens bounds the separators of a file, and with them the nodes that the
// parser makes. It is that of the renderer.
const maxTokens = 1 << 20

// load parses a file in which something may be encrypted. nil: nothing is, or
// it is no YAML or JSON, of which the renderer speaks.
func load(path string, data []byte) (*file, *problem) {
	if !bytes.Contains(data, []byte(metadataKey)) && !bytes.Contains(data, []byte(sealedPrefix)) {
		return nil, nil
	}
	if tooMany(data) {
		return nil, nil // the renderer refuses it
	}
	f := parse(path, data)
	switch {
	case f == nil:
		return nil, nil
	case f.deep:
		return f, &problem{at: &node{line: 1, column: 1}, rule: "TooDeep", message: fmt.Sprintf("is nested more than %d levels deep", maxDepth)}
	}
	for _, d := range f.docs {
		if d.get(metadataKey) != nil {
			return f, nil
		}
	}
	if len(f.stray()) > 0 {
		return f, nil
	}
	return nil, nil
}

func tooMany(data []byte) bool {
	return bytes.Count(data, []byte(","))+bytes.Count(data, []byte("\n"))+bytes.Count(data, []byte(": ")) > maxTokens
}

// parse reads JSON or YAML; nil when it is neither.
func parse(path string, data []byte) *file {
	f := newFile(path, data)
	err := errSyntax
	if first := bytes.TrimLeft(data, " \t\r\n"); len(first) > 0 && first[0] == '{' {
		err = f.parseJSON()
	}
	if errors.Is(err, errSyntax) {
		f = newFile(path, data)
		err = f.parseYAML()
	}
	if errors.Is(err, errSyntax) {
		return nil
	}
	f.deep = err != nil
	return f
}

// metadata reads the sops field of the first document, which speaks for all.
// Both nil: no document has one.
func (f *file) metadata() (*metadata, *problem) {
	var later *node
	for i, d := range f.docs {
		for j := range d.entries {
			e := &d.entries[j]
			if e.comment || e.key != metadataKey || d.kind != mapKind {
				continue
			}
			e.val.line, e.val.column = f.place(e.keyStart)
			if i == 0 {
				return readMetadata(e.val)
			}
			later = e.val
		}
	}
	if later != nil {
		return nil, bad(later, "the first document of the file has no sops field, and this one has")
	}
	return nil, nil
}

// stray are encrypted values in a file that says nothing of how to open them.
func (f *file) stray() []problem {
	var out []problem
	var path []string
	var look func(n *node)
	look = func(n *node) {
		if n.kind == scalarKind && n.isStr && len(out) < maxFindings {
			if _, ok := parseSealed(n.text); ok {
				out = append(out, problem{at: n, field: strings.TrimPrefix(strings.Join(path, ""), "."), rule: RuleHalfEncrypted,
					message: "is an encrypted value, and the file has no sops field to open it with",
					hint:    "restore the sops field from the commit that had it, or encrypt the file again"})
			}
		}
		for i, e := range n.entries {
			if !e.comment {
				path = append(path, fieldOf(".", n.kind, e.key, i))
				look(e.val)
				path = path[:len(path)-1]
			}
		}
	}
	for _, d := range f.docs {
		look(d)
	}
	return out
}

// fieldOf is the part of a field's path that names an entry.
func fieldOf(dot string, k kind, key string, i int) string {
	if k == listKind {
		return "[" + strconv.Itoa(i) + "]"
	}
	return dot + key
}
