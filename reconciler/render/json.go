package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"cuelang.org/go/cue/token"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// renderJSON reads the manifests of a JSON file.
func renderJSON(out *Rendered, file string, data []byte) {
	readJSON(out, file, data, func(n *node) { identify(out, n) })
}

// readJSON reads a JSON file: one value, or several one after the other.
func readJSON(out *Rendered, file string, data []byte, each func(*node)) {
	j := &jsonFile{out: out, name: file, dec: json.NewDecoder(bytes.NewReader(data)), data: data}
	j.dec.UseNumber()
	j.tok = token.NewFile(file, 0, len(data)+1)
	j.tok.SetLinesForContent(data)
	for j.skip() {
		before := len(out.Findings)
		n := j.value(0)
		if j.failed {
			return
		}
		if len(out.Findings) == before {
			each(n)
		}
	}
}

// jsonFile reads JSON token by token, for the positions and the double keys
// that encoding/json does not tell.
type jsonFile struct {
	out    *Rendered
	name   string
	tok    *token.File
	dec    *json.Decoder
	data   []byte
	failed bool
}

// skip says whether anything but white space is left.
func (j *jsonFile) skip() bool { return j.start() < len(j.data) }

// start is the offset at which the next token begins.
func (j *jsonFile) start() int {
	at := int(j.dec.InputOffset())
	for at < len(j.data) && strings.IndexByte(" \t\r\n,:", j.data[at]) >= 0 {
		at++
	}
	return at
}

func (j *jsonFile) find(at int, rule, message string) {
	p := j.tok.Pos(min(at, len(j.data)), token.NoRelPos)
	j.out.find(v1alpha1.Finding{File: j.name, Line: p.Line(), Column: p.Column(), Rule: rule, Message: message})
}

// fail reports an error after which nothing more can be read.
func (j *jsonFile) fail(at int, rule, message string) *node {
	if !j.failed {
		j.failed = true
		j.find(at, rule, message)
	}
	return nil
}

func (j *jsonFile) next() (json.Token, bool) {
	at := j.start()
	t, err := j.dec.Token()
	if err == nil {
		return t, true
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		at = max(int(syntax.Offset)-1, 0)
	}
	message := err.Error()
	if message == "EOF" || strings.Contains(message, "unexpected EOF") || at >= len(j.data) {
		message, at = "the file ends in the middle of a value", len(bytes.TrimRight(j.data, " \t\r\n"))
	}
	j.fail(at, "Syntax", message)
	return nil, false
}

func (j *jsonFile) value(depth int) *node {
	at := j.start()
	if depth > maxDepth {
		return j.fail(at, "TooDeep", fmt.Sprintf("is nested more than %d levels deep", maxDepth))
	}
	t, ok := j.next()
	if !ok {
		return nil
	}
	n := &node{pos: j.tok.Pos(at, token.NoRelPos)}
	switch t := t.(type) {
	case json.Delim:
		if t == '[' {
			return j.list(n, depth)
		}
		return j.object(n, depth)
	case string:
		n.kind, n.text = stringNode, t
	case json.Number:
		n.kind, n.text = numberNode, t.String()
	case bool:
		n.kind, n.text = boolNode, fmt.Sprint(t)
	}
	return n
}

func (j *jsonFile) list(n *node, depth int) *node {
	n.kind = listNode
	for j.dec.More() {
		item := j.value(depth + 1)
		if item == nil {
			return nil
		}
		n.items = append(n.items, item)
	}
	if _, ok := j.next(); !ok {
		return nil
	}
	return n
}

func (j *jsonFile) object(n *node, depth int) *node {
	n.kind = mapNode
	seen := map[string]token.Pos{}
	for j.dec.More() {
		at := j.start()
		t, ok := j.next()
		if !ok {
			return nil
		}
		key, pos := t.(string), j.tok.Pos(at, token.NoRelPos)
		v := j.value(depth + 1)
		if v == nil {
			return nil
		}
		if first, dup := seen[key]; dup {
			j.find(at, "DuplicateKey", fmt.Sprintf("key %q is already set in line %d", key, first.Line()))
			continue
		}
		seen[key] = pos
		n.fields = append(n.fields, field{key, pos, v})
	}
	if _, ok := j.next(); !ok {
		return nil
	}
	return n
}
