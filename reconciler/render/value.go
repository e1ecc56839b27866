package render

import (
	"encoding/json"
	"iter"
)

// Value is a part of a manifest that knows its place. The zero Value is of a
// part that is not there.
type Value struct{ n *node }

// Value is the manifest as it was read. It costs nothing, unlike Expr.
func (m *Manifest) Value() Value { return Value{m.node} }

// There says whether the manifest has the part, and not as null.
func (v Value) There() bool { return v.n != nil && v.n.kind != nullNode }

// Get returns the part at a path of keys.
func (v Value) Get(path ...string) Value { return Value{v.n.get(path...)} }

// Text is the value of a string; "" of all else.
func (v Value) Text() string { return v.n.str() }

// Scalar is the value of a string, a number or a boolean as it is written in
// JSON, strings without quotes; "" of all else.
func (v Value) Scalar() string {
	if v.n == nil || v.n.kind == mapNode || v.n.kind == listNode || v.n.kind == nullNode {
		return ""
	}
	return v.n.text
}

// Number says whether the value is a number.
func (v Value) Number() bool { return v.n != nil && v.n.kind == numberNode }

// Items yields the items of a list; none of all else.
func (v Value) Items() iter.Seq2[int, Value] {
	return func(yield func(int, Value) bool) {
		for i, item := range v.n.list() {
			if !yield(i, Value{item}) {
				return
			}
		}
	}
}

// Fields yields the keys of a map with their values; none of all else.
func (v Value) Fields() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		if v.n == nil || v.n.kind != mapNode {
			return
		}
		for i := range v.n.fields {
			if !yield(v.n.fields[i].key, Value{v.n.fields[i].val}) {
				return
			}
		}
	}
}

// Place is where the value is written; no file where that is not known.
func (v Value) Place() (file string, line, column int) {
	if v.n == nil || !v.n.pos.IsValid() {
		return "", 0, 0
	}
	p := v.n.pos.Position()
	return p.Filename, p.Line, p.Column
}

// KeyPlace is where a field of a map has its key; no file where that is not
// known.
func (v Value) KeyPlace(key string) (file string, line, column int) {
	f := v.n.entry(key)
	if f == nil || !f.pos.IsValid() {
		return "", 0, 0
	}
	p := f.pos.Position()
	return p.Filename, p.Line, p.Column
}

// Plain is what JSON holds, as maps, lists, strings, json.Number, bool and nil. It
// is made anew for each who asks.
func (m *Manifest) Plain() any { return m.node.decoded() }

func (n *node) decoded() any {
	switch n.kind {
	case boolNode:
		return n.text == "true"
	case numberNode:
		return json.Number(n.text)
	case stringNode:
		return n.text
	case listNode:
		out := make([]any, len(n.items))
		for i, item := range n.items {
			out[i] = item.decoded()
		}
		return out
	case mapNode:
		out := make(map[string]any, len(n.fields))
		for _, f := range n.fields {
			out[f.key] = f.val.decoded()
		}
		return out
	}
	return nil
}
