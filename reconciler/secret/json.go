package secret

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// jsonReader reads JSON token by token, for the offsets that Unmarshal does
// not tell.
type jsonReader struct {
	f   *file
	dec *json.Decoder
}

// parseJSON reads a file that holds one object, as SOPS writes it. errSyntax
// means anything else.
func (f *file) parseJSON() error {
	f.json = true
	r := jsonReader{f: f, dec: json.NewDecoder(bytes.NewReader(f.data))}
	r.dec.UseNumber()
	root, err := r.value(0)
	if err != nil {
		return err
	}
	if root.kind != mapKind || r.start() < len(f.data) {
		return errSyntax
	}
	f.docs = []*node{root}
	return nil
}

// start is the offset at which the next token begins.
func (r *jsonReader) start() int {
	at := int(r.dec.InputOffset())
	for at < len(r.f.data) && bytes.IndexByte([]byte(" \t\r\n,:"), r.f.data[at]) >= 0 {
		at++
	}
	return at
}

func (r *jsonReader) value(depth int) (*node, error) {
	if depth > maxDepth {
		return nil, errDeep
	}
	n := &node{start: r.start()}
	n.line, n.column = r.f.place(n.start)
	t, err := r.dec.Token()
	if err != nil {
		return nil, errSyntax
	}
	switch t := t.(type) {
	case json.Delim:
		if err := r.entries(n, t, depth); err != nil {
			return nil, err
		}
	case nil:
		n.null = true
	case string:
		n.isStr, n.text, n.mac = true, t, []byte(t)
	case bool:
		n.mac = macBool(t)
	case json.Number:
		n.number(t)
	}
	n.end = int(r.dec.InputOffset())
	return n, nil
}

// number reads a number as SOPS does.
func (n *node) number(t json.Number) {
	n.text = t.String()
	if i, err := t.Int64(); err == nil {
		n.mac = strconv.AppendInt(nil, i, 10)
		return
	}
	x, err := t.Float64()
	if err != nil {
		n.bad = "the number is too large; put it in quotes"
	}
	n.mac = strconv.AppendFloat(nil, x, 'f', -1, 64)
}

// entries reads what is in an object or a list, with its end.
func (r *jsonReader) entries(n *node, open json.Delim, depth int) error {
	n.kind = listKind
	if open == '{' {
		n.kind = mapKind
	}
	for r.dec.More() {
		e := entry{keyStart: r.start()}
		if n.kind == mapKind {
			t, err := r.dec.Token()
			key, ok := t.(string)
			if err != nil || !ok {
				return errSyntax
			}
			e.key = key
		}
		val, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		e.val = val
		n.entries = append(n.entries, e)
	}
	if _, err := r.dec.Token(); err != nil {
		return errSyntax
	}
	return nil
}
