package validate

import (
	"encoding/json"
	"strconv"
	"strings"

	"cuelang.org/go/cue/ast"
	cueliteral "cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/token"
)

// literal turns syntax into the value it stands for, as decode does for JSON.
// It is not plain when the syntax is more than literals, has a field twice, or
// a number that decode would not call plain.
func literal(expr ast.Expr) (v any, plain bool) {
	switch x := expr.(type) {
	case *ast.StructLit:
		return literalStruct(x)
	case *ast.ListLit:
		out := make([]any, 0, len(x.Elts))
		for _, e := range x.Elts {
			v, ok := literal(e)
			if !ok {
				return nil, false
			}
			out = append(out, v)
		}
		return out, true
	case *ast.BasicLit:
		return literalBasic(x)
	case *ast.UnaryExpr:
		n, ok := literal(x.X)
		if num, isNum := n.(json.Number); ok && isNum && x.Op == token.SUB {
			return "-" + num, true
		}
	case *ast.ParenExpr:
		return literal(x.X)
	}
	return nil, false
}

func literalStruct(s *ast.StructLit) (any, bool) {
	out := make(map[string]any, len(s.Elts))
	for _, d := range s.Elts {
		f, ok := d.(*ast.Field)
		if !ok || f.Constraint != token.ILLEGAL {
			return nil, false
		}
		name, _, err := ast.LabelName(f.Label)
		if err != nil {
			return nil, false
		}
		if _, twice := out[name]; twice {
			return nil, false
		}
		v, ok := literal(f.Value)
		if !ok {
			return nil, false
		}
		if v != nil {
			out[name] = v
		}
	}
	return out, true
}

func literalBasic(b *ast.BasicLit) (any, bool) {
	switch b.Kind {
	case token.STRING:
		s, err := cueliteral.Unquote(b.Value)
		return s, err == nil
	case token.INT, token.FLOAT:
		return literalNumber(b.Value)
	case token.TRUE:
		return true, true
	case token.FALSE:
		return false, true
	case token.NULL:
		return nil, true
	}
	return nil, false
}

// literalNumber turns the numbers of CUE, 0o644 too, into JSON's.
func literalNumber(s string) (any, bool) {
	if len(s) > 2 && s[0] == '0' && strings.ContainsRune("xXoObB", rune(s[1])) {
		n, err := strconv.ParseInt(s, 0, 64)
		return json.Number(strconv.FormatInt(n, 10)), err == nil
	}
	if !json.Valid([]byte(s)) {
		return nil, false // 1K, .5 and the like: only CUE knows them
	}
	return json.Number(s), plainNumber(s)
}

// isNull says whether syntax is the literal null.
func isNull(e ast.Expr) bool {
	b, ok := e.(*ast.BasicLit)
	return ok && b.Kind == token.NULL
}

// withoutNulls returns the syntax without the fields that are null. Positions
// stay; what has no nulls is shared with the argument.
func withoutNulls(e ast.Expr) ast.Expr {
	switch x := e.(type) {
	case *ast.StructLit:
		out := &ast.StructLit{Lbrace: x.Lbrace, Rbrace: x.Rbrace}
		for _, d := range x.Elts {
			if f, ok := d.(*ast.Field); ok {
				if isNull(f.Value) {
					continue
				}
				d = &ast.Field{Label: f.Label, Constraint: f.Constraint, TokenPos: f.TokenPos, Value: withoutNulls(f.Value)}
			}
			out.Elts = append(out.Elts, d)
		}
		return out
	case *ast.ListLit:
		out := &ast.ListLit{Lbrack: x.Lbrack, Rbrack: x.Rbrack}
		for _, el := range x.Elts {
			out.Elts = append(out.Elts, withoutNulls(el))
		}
		return out
	}
	return e
}
