package validate

import (
	"maps"
	"slices"

	"cuelang.org/go/cue/ast"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// node is a value inside a decoded object, with its path if that is wanted.
// What is not there is a node without a value.
type node struct {
	path   []any
	value  any
	placed bool // the path is wanted
}

// at follows names of fields.
func (n node) at(names ...string) node {
	for _, name := range names {
		m, _ := n.value.(map[string]any)
		if !n.placed {
			n = node{value: m[name]}
			continue
		}
		n = node{append(slices.Clip(n.path), name), m[name], true}
	}
	return n
}

func (n node) items() []node {
	list, _ := n.value.([]any)
	out := make([]node, len(list))
	for i, v := range list {
		if !n.placed {
			out[i] = node{value: v}
			continue
		}
		out[i] = node{append(slices.Clip(n.path), i), v, true}
	}
	return out
}

func (n node) keys() []string {
	m, _ := n.value.(map[string]any)
	return slices.Sorted(maps.Keys(m))
}

func (n node) text() string {
	s, _ := n.value.(string)
	return s
}

func (n node) textOr(other string) string {
	if s := n.text(); s != "" {
		return s
	}
	return other
}

func (n node) int() int64 {
	i, _ := wholeNumber(n.value)
	return i
}

// findings says relations as findings, each at the place in the syntax, if
// there is syntax.
func findings(object string, rs []relation, expr ast.Expr) []v1alpha1.Finding {
	var w walker
	w.object = object
	for _, r := range rs {
		at := locate(r.path, expr)
		if r.near != nil {
			at.pos = locate(r.near, expr).pos
		}
		w.find(r.rule, at, r.hint, "%s", r.message)
	}
	return w.out
}

// locate finds the place of a path: of the value, or, if it is not there, of
// the nearest field around it that is.
func locate(path []any, expr ast.Expr) place {
	at := place{}
	if expr != nil {
		at.pos = expr.Pos()
	}
	for _, step := range path {
		switch s := step.(type) {
		case string:
			f := member(expr, s)
			if at = at.field(s, at.pos); f == nil {
				expr = nil
				continue
			}
			expr = f.Value
			at.pos = f.Label.Pos()
		case int:
			at = at.item(s, at.pos)
			list, ok := expr.(*ast.ListLit)
			if !ok || s >= len(list.Elts) {
				expr = nil
				continue
			}
			expr = list.Elts[s]
			at.pos = expr.Pos()
		}
	}
	if _, ok := expr.(*ast.BasicLit); ok {
		return at.at(expr)
	}
	return at
}
