package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	cueerrors "cuelang.org/go/cue/errors"
)

// breach is one way in which an object breaks a rule.
type breach struct {
	steps     []string // of the path, below what the rule is about; items of lists by number
	why       []string // in the words of CUE
	forbidden bool     // the field must not be there
}

// breaches orders by field what CUE says of an object. whole is the constraint
// unified with the object, e is the object.
func breaches(whole cue.Value, e ast.Expr, errs []cueerrors.Error, name string) []breach {
	var out []breach
	add := func(b breach) {
		i := slices.IndexFunc(out, func(o breach) bool { return slices.Equal(o.steps, b.steps) })
		if i < 0 {
			out = append(out, b)
		} else if !strings.HasSuffix(out[i].why[0], ":") { // "2 errors in empty disjunction:", the others follow
			out[i].why = append(out[i].why, b.why...)
		} else {
			out[i].why = b.why
		}
	}
	var literal []breach
	for _, err := range errs {
		format, args := err.Msg()
		b := breach{steps: below(err.Path(), name), why: []string{strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")}}
		if strings.HasPrefix(b.why[0], "explicit error") {
			literal = append(literal, b)
		} else {
			add(b)
		}
	}
	if len(literal) == 0 {
		return out
	}
	// Of a field?: _|_ CUE names the object around it, so the field is sought.
	known := func(f []string) bool {
		return slices.ContainsFunc(out, func(b breach) bool { return slices.Equal(b.steps, f) })
	}
	fields := slices.DeleteFunc(broken(whole, e, nil), known)
	for _, f := range fields {
		add(breach{steps: f, why: []string{"the field must not be there"}, forbidden: true})
	}
	if len(fields) == 0 {
		for _, b := range literal {
			add(b)
		}
	}
	return out
}

// broken lists the fields of e that are errors in v and have none below.
func broken(v cue.Value, e ast.Expr, at []string) [][]string {
	var out [][]string
	below := func(step string, sel cue.Selector, value ast.Expr) {
		if len(out) >= maxBroken {
			return
		}
		child := v.LookupPath(cue.MakePath(sel))
		if !child.Exists() || child.Validate() == nil {
			return
		}
		path := append(slices.Clone(at), step)
		if deeper := broken(child, value, path); len(deeper) > 0 {
			out = append(out, deeper...)
		} else {
			out = append(out, path)
		}
	}
	switch e := e.(type) {
	case *ast.StructLit:
		for _, d := range e.Elts {
			if f, ok := d.(*ast.Field); ok {
				if name, _, err := ast.LabelName(f.Label); err == nil {
					below(name, cue.Str(name), f.Value)
				}
			}
		}
	case *ast.ListLit:
		for i, item := range e.Elts {
			below(strconv.Itoa(i), cue.Index(i), item)
		}
	}
	return out
}

// maxBroken bounds the fields of one object that are told of.
const maxBroken = 20

// below is the path of an error without the way to the constraint of a rule.
func below(path []string, name string) []string {
	var out []string
	for i, step := range path {
		plain := step
		if text, err := strconv.Unquote(step); err == nil {
			plain = text
		}
		if i < 3 && (plain == "rules" || plain == name || plain == "require") {
			continue
		}
		out = append(out, plain)
	}
	return out
}

// join writes a path as that of a field of the object.
func join(prefix string, steps []string) string {
	var b strings.Builder
	b.WriteString(prefix)
	for _, step := range steps {
		switch {
		case step != "" && strings.Trim(step, "0123456789") == "", strings.ContainsAny(step, "./"):
			b.WriteString("[" + step + "]")
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(step)
		}
	}
	return b.String()
}
