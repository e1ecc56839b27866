package validate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue/ast"
	cueliteral "cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/token"
)

// kindOf names the kind of a literal: object, array, string, integer, number,
// boolean, null.
func kindOf(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.StructLit:
		return "object"
	case *ast.ListLit:
		return "array"
	case *ast.UnaryExpr:
		return kindOf(x.X)
	case *ast.ParenExpr:
		return kindOf(x.X)
	case *ast.BasicLit:
		switch x.Kind {
		case token.STRING:
			return "string"
		case token.INT:
			return "integer"
		case token.FLOAT:
			return "number"
		case token.TRUE, token.FALSE:
			return "boolean"
		}
	}
	return "null"
}

// kinds returns the kinds of values that a definition takes; nil for any.
func (w *walker) kinds(def ast.Expr) []string {
	switch x := def.(type) {
	case *ast.ParenExpr:
		return w.kinds(x.X)
	case *ast.StructLit:
		return []string{"object"}
	case *ast.ListLit:
		return []string{"array"}
	case *ast.BasicLit:
		return []string{kindOf(x)}
	case *ast.UnaryExpr:
		if x.Op == token.MAT || x.Op == token.NMAT {
			return []string{"string"}
		}
	case *ast.CallExpr:
		switch name := funcName(x); {
		case name == "close":
			return []string{"object"}
		case strings.HasPrefix(name, "strings."):
			return []string{"string"}
		case strings.HasPrefix(name, "list."):
			return []string{"array"}
		}
	case *ast.Ident:
		if d := w.syntax[x.Name]; d != nil {
			return w.kinds(d.body)
		}
		return basicKinds[x.Name]
	case *ast.BinaryExpr:
		return w.kindsOfBinary(x)
	}
	return nil
}

// kindsOfBinary joins those of a | b, and takes the first that says any of a & b.
func (w *walker) kindsOfBinary(x *ast.BinaryExpr) []string {
	a, b := w.kinds(x.X), w.kinds(x.Y)
	switch {
	case x.Op == token.AND && a != nil:
		return a
	case x.Op == token.AND:
		return b
	case a == nil || b == nil:
		return nil
	}
	for _, k := range b {
		if !slices.Contains(a, k) {
			a = append(slices.Clone(a), k)
		}
	}
	return a
}

var basicKinds = map[string][]string{
	"string": {"string"},
	"bool":   {"boolean"},
	"int":    {"integer"},
	"int32":  {"integer"},
	"int64":  {"integer"},
	"number": {"number", "integer"},
}

var kindTexts = map[string]string{
	"object": "an object", "array": "a list", "string": "a string", "integer": "an integer",
	"number": "a number", "boolean": "true or false", "null": "null",
}

// wantText says kinds in words: "an integer or a string".
func wantText(kinds []string) string {
	var out []string
	for _, k := range kinds {
		if k == "integer" && slices.Contains(kinds, "number") {
			continue
		}
		out = append(out, kindTexts[k])
	}
	return strings.Join(out, " or ")
}

// isText says what a value is: `a string ("three")`.
func isText(v ast.Expr) string {
	switch k := kindOf(v); k {
	case "object", "array", "null":
		return kindTexts[k]
	case "boolean":
		return short(v)
	default:
		return fmt.Sprintf("%s (%s)", kindTexts[k], short(v))
	}
}

// maxShown is how much of a value a message shows.
const maxShown = 64

// short shows a value in a message.
func short(v ast.Expr) string {
	s, ok := text(v)
	if !ok {
		return kindTexts[kindOf(v)]
	}
	if r := []rune(s); len(r) > maxShown {
		s = string(r[:maxShown]) + "..."
	}
	if kindOf(v) == "string" {
		return fmt.Sprintf("%q", s)
	}
	return s
}

// text returns the text of a scalar.
func text(e ast.Expr) (string, bool) {
	switch x := e.(type) {
	case *ast.BasicLit:
		if x.Kind != token.STRING {
			return x.Value, true
		}
		s, err := cueliteral.Unquote(x.Value)
		return s, err == nil
	case *ast.UnaryExpr:
		s, ok := text(x.X)
		return x.Op.String() + s, ok
	case *ast.ParenExpr:
		return text(x.X)
	}
	return "", false
}

// words returns the words of a choice between words, "" left out; nil if it is
// a choice between other things too.
func (w *walker) words(branches []ast.Expr) []string {
	var out []string
	for _, b := range branches {
		if id, ok := b.(*ast.Ident); ok && w.syntax[id.Name] != nil {
			more := w.words(disjuncts(w.syntax[id.Name].body))
			if more == nil {
				return nil
			}
			out = append(out, more...)
			continue
		}
		lit, ok := b.(*ast.BasicLit)
		if !ok {
			return nil
		}
		if s, _ := text(lit); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// oneOf lists words: "one of A, B, C".
func oneOf(words []string) string {
	if len(words) == 1 {
		return strconv.Quote(words[0])
	}
	return "one of " + strings.Join(words, ", ")
}

func count(n int, noun string) string {
	if n == 1 {
		return "one " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// DidYouMean returns a hint with the word that was probably meant; "" if none
// is near.
func DidYouMean(got string, words []string) string {
	best, near := "", max(1, min(3, len(got)/3))+1
	for _, word := range words {
		if d := distance(strings.ToLower(got), strings.ToLower(word)); d < near {
			best, near = word, d
		}
	}
	if best == "" || got == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %q?", best)
}

// distance counts the letters to insert, delete, change or swap with their
// neighbour.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	prev2, prev, cur := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(x); i++ {
		cur[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(y)]
}

// onlyLiterals says whether syntax is objects, lists and scalars only.
func onlyLiterals(e ast.Expr) bool {
	switch x := e.(type) {
	case *ast.StructLit:
		for _, d := range x.Elts {
			f, ok := d.(*ast.Field)
			if !ok || f.Constraint != token.ILLEGAL || !onlyLiterals(f.Value) {
				return false
			}
			if _, _, err := ast.LabelName(f.Label); err != nil {
				return false
			}
		}
		return true
	case *ast.ListLit:
		return !slices.ContainsFunc(x.Elts, func(e ast.Expr) bool { return !onlyLiterals(e) })
	case *ast.BasicLit:
		return true
	case *ast.UnaryExpr:
		_, ok := x.X.(*ast.BasicLit)
		return ok && (x.Op == token.SUB || x.Op == token.ADD)
	case *ast.ParenExpr:
		return onlyLiterals(x.X)
	}
	return false
}
