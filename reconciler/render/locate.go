package render

import (
	"strconv"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"
)

// Locate returns the place of a field in a manifest, as far down the path as
// the manifest goes: "spec.template.spec.containers[0].image". Elements of a
// list are named by index or by key, as in [name="web"].
func Locate(e ast.Expr, path string) token.Position {
	pos := e.Pos()
	for _, step := range Steps(path) {
		key, value := child(e, step)
		if value == nil {
			break
		}
		e = value
		if pos = value.Pos(); key != nil {
			pos = key.Pos()
		}
	}
	return pos.Position()
}

// LocateValue returns the place of the value at a path, and its text when it is
// one of a scalar. Where the manifest does not go as far, it is the place that
// Locate returns.
func LocateValue(e ast.Expr, path string) (at token.Position, text string) {
	v := e
	for _, step := range Steps(path) {
		if _, v = child(v, step); v == nil {
			return Locate(e, path), ""
		}
	}
	if !v.Pos().IsValid() {
		return Locate(e, path), ""
	}
	switch v := v.(type) {
	case *ast.BasicLit:
		text = v.Value
	case *ast.UnaryExpr:
		if lit, ok := v.X.(*ast.BasicLit); ok {
			text = v.Op.String() + lit.Value
		}
	}
	return v.Pos().Position(), text
}

// Descend returns the part of a manifest at a path; an empty struct at the
// place of the manifest when it has none.
func Descend(e ast.Expr, path string) ast.Expr {
	pos := e.Pos()
	for _, step := range Steps(path) {
		_, value := child(e, step)
		if value == nil {
			return &ast.StructLit{Lbrace: pos}
		}
		e, pos = value, value.Pos()
	}
	return e
}

// Steps splits a path: `a.b[name="x"].c` is a, b, [name="x"], c.
func Steps(path string) []string {
	var out []string
	start, quoted, inner := 0, false, false
	cut := func(end int) {
		if s := path[start:end]; s != "" {
			out = append(out, s)
		}
	}
	for i := 0; i < len(path); i++ {
		switch c := path[i]; {
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == ']':
			cut(i + 1)
			start, inner = i+1, false
		case inner:
		case c == '.':
			cut(i)
			start = i + 1
		case c == '[':
			cut(i)
			start, inner = i, true
		}
	}
	cut(len(path))
	return out
}

// child goes one step down; key is the label where the step is a field.
func child(e ast.Expr, step string) (key ast.Node, value ast.Expr) {
	inner, isIndex := strings.CutPrefix(step, "[")
	switch e := e.(type) {
	case *ast.StructLit:
		if isIndex { // a key with a dot in it is written [a.b/c]
			step = strings.TrimSuffix(inner, "]")
		}
		for _, d := range e.Elts {
			if f, ok := d.(*ast.Field); ok && labelText(f.Label) == step {
				return f.Label, f.Value
			}
		}
	case *ast.ListLit:
		if !isIndex {
			return nil, nil
		}
		inner = strings.TrimSuffix(inner, "]")
		if i, err := strconv.Atoi(inner); err == nil && i >= 0 && i < len(e.Elts) {
			return nil, e.Elts[i]
		}
		for _, item := range e.Elts {
			if hasKeys(item, inner) {
				return nil, item
			}
		}
	}
	return nil, nil
}

// hasKeys says whether a map has the fields of `name="web"` or, where the
// element has more keys, of the first of them.
func hasKeys(item ast.Expr, keys string) bool {
	keys, _, _ = strings.Cut(keys, ",")
	name, want, _ := strings.Cut(keys, "=")
	_, v := child(item, name)
	lit, ok := v.(*ast.BasicLit)
	return ok && strings.Trim(lit.Value, `"`) == strings.Trim(want, `"`)
}

func labelText(l ast.Label) string {
	text, _, _ := ast.LabelName(l)
	return text
}
