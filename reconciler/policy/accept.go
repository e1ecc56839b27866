package policy

import (
	"encoding/json"
	"math/big"
	"regexp"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
)

// accept says that a value certainly satisfies a constraint; false leaves the
// answer to CUE, which also says why. Nearly every object of a repository
// satisfies nearly every rule, and this answers in microseconds.
type accept func(v any) bool

// compile makes the quick answer of a constraint; nil where it is made of more
// than is understood here.
func compile(v cue.Value, depth int) accept {
	if depth > 32 {
		return nil
	}
	op, args := v.Expr()
	switch op {
	case cue.NoOp:
		return compilePlain(v, depth)
	case cue.AndOp, cue.OrOp:
		return compileAll(op, args, depth)
	case cue.RegexMatchOp, cue.NotRegexMatchOp:
		return compilePattern(op, args)
	case cue.GreaterThanOp, cue.GreaterThanEqualOp, cue.LessThanOp, cue.LessThanEqualOp:
		return compileBound(op, args)
	}
	return nil
}

func compileAll(op cue.Op, args []cue.Value, depth int) accept {
	parts := make([]accept, len(args))
	for i, a := range args {
		if parts[i] = compile(a, depth+1); parts[i] == nil {
			return nil
		}
	}
	return func(v any) bool {
		for _, p := range parts {
			if p(v) != (op == cue.AndOp) {
				return op == cue.OrOp
			}
		}
		return op == cue.AndOp
	}
}

func compilePattern(op cue.Op, args []cue.Value) accept {
	if len(args) != 1 {
		return nil
	}
	text, err := args[0].String()
	if err != nil {
		return nil
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil
	}
	return func(v any) bool {
		s, ok := v.(string)
		return ok && re.MatchString(s) == (op == cue.RegexMatchOp)
	}
}

func compileBound(op cue.Op, args []cue.Value) accept {
	if len(args) != 1 || args[0].Kind() != cue.IntKind {
		return nil
	}
	bound, err := args[0].Int(nil)
	if err != nil {
		return nil
	}
	return func(v any) bool {
		n, ok := v.(json.Number)
		if !ok {
			return false
		}
		i, ok := new(big.Int).SetString(n.String(), 10)
		if !ok {
			return false
		}
		switch c := i.Cmp(bound); op {
		case cue.GreaterThanOp:
			return c > 0
		case cue.GreaterThanEqualOp:
			return c >= 0
		case cue.LessThanOp:
			return c < 0
		}
		return i.Cmp(bound) <= 0
	}
}

// compilePlain is the constraint of a value without an operator.
func compilePlain(v cue.Value, depth int) accept {
	if v.IncompleteKind() == cue.BottomKind {
		return func(any) bool { return false }
	}
	if v.IsConcrete() && v.IncompleteKind()&(cue.StructKind|cue.ListKind) == 0 {
		return compileConstant(v)
	}
	switch v.IncompleteKind() {
	case cue.TopKind:
		if _, ok := source(v).(*ast.Ident); ok {
			return func(any) bool { return true }
		}
	case cue.StringKind:
		return ofType[string](v)
	case cue.BoolKind:
		return ofType[bool](v)
	case cue.StructKind:
		return compileStruct(v, depth)
	case cue.ListKind:
		return compileList(v, depth)
	}
	return nil
}

// source is the expression of a value that is written in one place.
func source(v cue.Value) ast.Node {
	if f, ok := v.Source().(*ast.Field); ok {
		return f.Value
	}
	return v.Source()
}

// ofType accepts all values of a type, which the source names.
func ofType[T any](v cue.Value) accept {
	if id, ok := source(v).(*ast.Ident); !ok || id.Name != "string" && id.Name != "bool" {
		return nil
	}
	return func(v any) bool {
		_, ok := v.(T)
		return ok
	}
}

func compileConstant(v cue.Value) accept {
	switch v.Kind() {
	case cue.StringKind:
		want, err := v.String()
		if err != nil {
			return nil
		}
		return func(v any) bool { return v == want }
	case cue.BoolKind:
		want, err := v.Bool()
		if err != nil {
			return nil
		}
		return func(v any) bool { return v == want }
	}
	return nil
}

// member is one field of a struct.
type member struct {
	name     string
	optional bool
	accept   accept
}

func compileStruct(v cue.Value, depth int) accept {
	if !plainStruct(source(v)) {
		return nil
	}
	it, err := v.Fields(cue.Optional(true))
	if err != nil {
		return nil
	}
	var members []member
	for it.Next() {
		sel := it.Selector()
		if sel.LabelType() != cue.StringLabel {
			return nil
		}
		m := member{name: sel.Unquoted(), accept: compile(it.Value(), depth+1)}
		if m.accept == nil {
			return nil
		}
		m.optional = sel.ConstraintType()&cue.OptionalConstraint != 0
		members = append(members, m)
	}
	return func(v any) bool {
		o, ok := v.(map[string]any)
		if !ok {
			return false
		}
		for i := range members {
			m := &members[i]
			have, ok := o[m.name]
			if !ok && !m.optional || ok && !m.accept(have) {
				return false
			}
		}
		return true
	}
}

// plainStruct says whether the source of a struct has nothing but fields.
func plainStruct(n ast.Node) bool {
	s, ok := n.(*ast.StructLit)
	if !ok {
		return false
	}
	for _, d := range s.Elts {
		switch d := d.(type) {
		case *ast.Ellipsis, *ast.CommentGroup, *ast.Attribute:
		case *ast.Field:
			switch d.Label.(type) {
			case *ast.Ident, *ast.BasicLit:
			default: // patterns and aliases
				return false
			}
		default:
			return false
		}
	}
	return true
}

// compileList is the constraint [...T].
func compileList(v cue.Value, depth int) accept {
	l, ok := source(v).(*ast.ListLit)
	if !ok || len(l.Elts) != 1 {
		return nil
	}
	if e, ok := l.Elts[0].(*ast.Ellipsis); !ok || e.Type == nil {
		return nil
	}
	item := compile(v.LookupPath(cue.MakePath(cue.AnyIndex)), depth+1)
	if item == nil {
		return nil
	}
	return func(v any) bool {
		items, ok := v.([]any)
		if !ok {
			return false
		}
		for _, i := range items {
			if !item(i) {
				return false
			}
		}
		return true
	}
}
