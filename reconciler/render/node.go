package render

import (
	"strconv"
	"unicode/utf8"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/token"
)

type nodeKind uint8

const (
	nullNode nodeKind = iota
	boolNode
	numberNode
	stringNode
	listNode
	mapNode
)

// nodeStyle says how a YAML scalar is written.
type nodeStyle uint8

const (
	otherStyle  nodeStyle = iota // not known, or no scalar of YAML
	plainStyle                   // without quotes, on one line
	quotedStyle                  // in quotes
	blockStyle                   // "|" or ">"
)

// node is a value of a manifest with its place in the file. Every format is
// read into nodes; JSON and CUE syntax are written from them.
type node struct {
	kind   nodeKind
	style  nodeStyle
	pos    token.Pos
	text   string // of a scalar, as in JSON but strings unquoted
	fields []field
	items  []*node
}

type field struct {
	key string
	pos token.Pos
	val *node
}

// get returns the value at a path of keys; nil when there is none.
func (n *node) get(path ...string) *node {
	for _, key := range path {
		var next *node
		if n != nil && n.kind == mapNode {
			for i := range n.fields {
				if n.fields[i].key == key {
					next = n.fields[i].val
				}
			}
		}
		n = next
	}
	return n
}

// entry returns the field of a key; nil when there is none.
func (n *node) entry(key string) *field {
	if n == nil || n.kind != mapNode {
		return nil
	}
	for i := range n.fields {
		if n.fields[i].key == key {
			return &n.fields[i]
		}
	}
	return nil
}

// list returns the items at a path; nil when there is no list.
func (n *node) list(path ...string) []*node {
	if v := n.get(path...); v != nil && v.kind == listNode {
		return v.items
	}
	return nil
}

// str returns the string at a path; "" when there is none.
func (n *node) str(path ...string) string {
	if v := n.get(path...); v != nil && v.kind == stringNode {
		return v.text
	}
	return ""
}

// remove takes a field out of a map.
func (n *node) remove(key string) {
	if n == nil {
		return
	}
	kept := n.fields[:0:0]
	for _, f := range n.fields {
		if f.key != key {
			kept = append(kept, f)
		}
	}
	n.fields = kept
}

// setDefault adds a string to a map that does not have the key.
func (n *node) setDefault(key, text string) {
	if n != nil && n.kind == mapNode && n.get(key) == nil {
		n.fields = append(n.fields, field{key, n.pos, &node{kind: stringNode, pos: n.pos, text: text}})
	}
}

// appendJSON writes the node as JSON, keys in the order of the file.
func (n *node) appendJSON(b []byte) []byte {
	switch n.kind {
	case nullNode:
		return append(b, "null"...)
	case stringNode:
		return appendQuoted(b, n.text)
	case listNode:
		b = append(b, '[')
		for i, item := range n.items {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.appendJSON(b)
		}
		return append(b, ']')
	case mapNode:
		b = append(b, '{')
		for i, f := range n.fields {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendQuoted(b, f.key), ':')
			b = f.val.appendJSON(b)
		}
		return append(b, '}')
	}
	return append(b, n.text...)
}

const hexDigits = "0123456789abcdef"

// appendQuoted writes a JSON string.
func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf || c >= utf8.RuneSelf {
			continue
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		start = i + 1
	}
	return append(append(b, s[start:]...), '"')
}

// expr returns the node as CUE syntax with its positions.
func (n *node) expr() ast.Expr {
	switch n.kind {
	case listNode:
		l := &ast.ListLit{Lbrack: n.pos, Elts: make([]ast.Expr, len(n.items))}
		for i, item := range n.items {
			l.Elts[i] = item.expr()
		}
		return l
	case mapNode:
		s := &ast.StructLit{Lbrace: n.pos, Elts: make([]ast.Decl, len(n.fields))}
		for i, f := range n.fields {
			label := &ast.BasicLit{ValuePos: f.pos, Kind: token.STRING, Value: literal.String.Quote(f.key)}
			s.Elts[i] = &ast.Field{Label: label, Value: f.val.expr()}
		}
		return s
	}
	return n.scalarExpr()
}

func (n *node) scalarExpr() ast.Expr {
	lit := &ast.BasicLit{ValuePos: n.pos, Value: n.text}
	switch n.kind {
	case nullNode:
		lit.Kind, lit.Value = token.NULL, "null"
	case stringNode:
		lit.Kind, lit.Value = token.STRING, literal.String.Quote(n.text)
	case boolNode:
		lit.Kind = token.FALSE
		if n.text == "true" {
			lit.Kind = token.TRUE
		}
	default:
		lit.Kind = token.INT
		if _, err := strconv.ParseInt(n.text, 10, 64); err != nil {
			if _, err := strconv.ParseUint(n.text, 10, 64); err != nil {
				lit.Kind = token.FLOAT
			}
		}
		if n.text[0] == '-' {
			lit.Value = n.text[1:]
			return &ast.UnaryExpr{OpPos: n.pos, Op: token.SUB, X: lit}
		}
	}
	return lit
}
