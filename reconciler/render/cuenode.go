package render

import (
	"encoding/base64"
	"fmt"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"
)

// cueNode reads a concrete value. Its positions are those of the expressions
// that made it, in whichever file of the package they are.
func cueNode(v cue.Value, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("is nested more than %d levels deep", maxDepth)
	}
	v, _ = v.Default()
	n := &node{pos: v.Pos()}
	switch v.Kind() {
	case cue.StructKind:
		return cueStruct(n, v, depth)
	case cue.ListKind:
		n.kind = listNode
		it, err := v.List()
		if err != nil {
			return nil, err
		}
		for it.Next() {
			item, err := cueNode(it.Value(), depth+1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, item)
		}
		return n, nil
	case cue.StringKind:
		n.kind = stringNode
		text, err := v.String()
		n.text = text
		return n, err
	case cue.BytesKind:
		n.kind = stringNode
		data, err := v.Bytes()
		n.text = base64.StdEncoding.EncodeToString(data)
		return n, err
	case cue.NullKind:
		return n, nil
	}
	n.kind = numberNode
	if v.Kind() == cue.BoolKind {
		n.kind = boolNode
	}
	data, err := v.MarshalJSON()
	n.text = string(data)
	return n, err
}

func cueStruct(n *node, v cue.Value, depth int) (*node, error) {
	n.kind = mapNode
	it, err := v.Fields()
	if err != nil {
		return nil, err
	}
	for it.Next() {
		val, err := cueNode(it.Value(), depth+1)
		if err != nil {
			return nil, err
		}
		n.fields = append(n.fields, field{it.Selector().Unquoted(), keyPos(it.Value(), val), val})
	}
	return n, nil
}

// keyPos is the place of the label of a field where its syntax is known, and
// else that of its value.
func keyPos(v cue.Value, val *node) token.Pos {
	if f, ok := v.Source().(*ast.Field); ok && f.Label.Pos().IsValid() {
		return f.Label.Pos()
	}
	return val.pos
}
