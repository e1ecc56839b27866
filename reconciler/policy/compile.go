package policy

import (
	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
)

// compile makes the quick answer of a constraint; nil where it is made of more
// than is understood here.
func compile(v cue.Value, depth int) *accept {
	if depth > maxAcceptDepth {
		return nil
	}
	op, args := v.Expr()
	switch op {
	case cue.NoOp:
		return compilePlain(v, depth)
	case cue.AndOp:
		return compileAll(all, args, depth)
	case cue.OrOp:
		return compileAll(some, args, depth)
	case cue.RegexMatchOp:
		return compilePattern(pattern, args)
	case cue.NotRegexMatchOp:
		return compilePattern(notPattern, args)
	case cue.GreaterThanOp:
		return compileBound(greater, args)
	case cue.GreaterThanEqualOp:
		return compileBound(greaterEqual, args)
	case cue.LessThanOp:
		return compileBound(less, args)
	case cue.LessThanEqualOp:
		return compileBound(lessEqual, args)
	}
	return nil
}

func compileAll(op op, args []cue.Value, depth int) *accept {
	out := &accept{Op: op}
	for _, v := range args {
		a := compile(v, depth+1)
		if a == nil {
			return nil
		}
		out.Args = append(out.Args, *a)
	}
	return out
}

func compilePattern(op op, args []cue.Value) *accept {
	if len(args) != 1 {
		return nil
	}
	text, err := args[0].String()
	if err != nil || smallPattern(text) == nil {
		return nil
	}
	return &accept{Op: op, Text: text}
}

func compileBound(op op, args []cue.Value) *accept {
	if len(args) != 1 || args[0].Kind() != cue.IntKind {
		return nil
	}
	bound, err := args[0].Int(nil)
	if err != nil || integer(bound.String()) == nil {
		return nil
	}
	return &accept{Op: op, Text: bound.String()}
}

// compilePlain is the constraint of a value without an operator.
func compilePlain(v cue.Value, depth int) *accept {
	if v.IncompleteKind() == cue.BottomKind {
		return &accept{Op: never}
	}
	if v.IsConcrete() && v.IncompleteKind()&(cue.StructKind|cue.ListKind) == 0 {
		return compileConstant(v)
	}
	switch v.IncompleteKind() {
	case cue.TopKind:
		if _, ok := source(v).(*ast.Ident); ok {
			return &accept{Op: anything}
		}
	case cue.StringKind:
		return ofType(v, isString)
	case cue.BoolKind:
		return ofType(v, isBool)
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
func ofType(v cue.Value, op op) *accept {
	if id, ok := source(v).(*ast.Ident); !ok || id.Name != "string" && id.Name != "bool" {
		return nil
	}
	return &accept{Op: op}
}

func compileConstant(v cue.Value) *accept {
	switch v.Kind() {
	case cue.StringKind:
		if want, err := v.String(); err == nil {
			return &accept{Op: constant, Text: want}
		}
	case cue.BoolKind:
		if want, err := v.Bool(); err == nil && want {
			return &accept{Op: isTrue}
		} else if err == nil {
			return &accept{Op: isFalse}
		}
	}
	return nil
}

func compileStruct(v cue.Value, depth int) *accept {
	if !plainStruct(source(v)) {
		return nil
	}
	it, err := v.Fields(cue.Optional(true))
	if err != nil {
		return nil
	}
	out := &accept{Op: structure}
	for it.Next() {
		sel := it.Selector()
		if sel.LabelType() != cue.StringLabel {
			return nil
		}
		a := compile(it.Value(), depth+1)
		if a == nil {
			return nil
		}
		out.Members = append(out.Members, member{sel.Unquoted(), sel.ConstraintType()&cue.OptionalConstraint != 0, *a})
	}
	return out
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
func compileList(v cue.Value, depth int) *accept {
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
	return &accept{Op: list, Args: []accept{*item}}
}
