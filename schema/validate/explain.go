package validate

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/errors"
	"cuelang.org/go/cue/token"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// walker goes through an object and its definition side by side.
type walker struct {
	*definitions
	object string
	wide   bool // a list of it is longer than maxEvaluated
	out    []v1alpha1.Finding
}

// maxEvaluated is how many items a list may have about which CUE is asked as a
// whole: its time grows with the square of them. Longer ones are judged item by
// item.
const maxEvaluated = 10_000

// explain says what is wrong with an object that the JSON Schema did not
// accept. CUE has the last word: what it accepts is accepted.
func explain(r *schema.Resource, expr ast.Expr) []v1alpha1.Finding {
	w := &walker{definitions: definitionsOnce()}
	expr = w.concrete(expr)
	if expr == nil {
		return w.out
	}
	expr = withoutNulls(expr)
	longest := longestList(expr)
	w.wide = longest > maxEvaluated
	w.object = objectName(r, expr)
	w.value(ast.NewIdent("#"+r.Definition()), expr, place{pos: expr.Pos()})
	switch {
	case len(w.out) > 0:
	case w.wide:
		w.find(RuleTooMany, place{pos: expr.Pos()}, "", "is not accepted, and with a list of %d items it is too large to say why", longest)
	default:
		w.judge(r, expr)
	}
	return sortFindings(w.out)
}

// longestList is how many items the longest list of an expression has.
func longestList(expr ast.Expr) (longest int) {
	ast.Walk(expr, func(n ast.Node) bool {
		if l, ok := n.(*ast.ListLit); ok {
			longest = max(longest, len(l.Elts))
		}
		return true
	}, nil)
	return longest
}

// fits asks CUE whether a value fits a part of a definition. Of an object with
// a list that is too long only simple values are asked about.
func (w *walker) fits(part, value ast.Expr) bool {
	switch value.(type) {
	case *ast.StructLit, *ast.ListLit:
		if w.wide {
			return true
		}
	}
	return w.definitions.fits(part, value)
}

// concrete evaluates syntax that is more than literals.
func (w *walker) concrete(expr ast.Expr) ast.Expr {
	if onlyLiterals(expr) {
		return expr
	}
	v := w.ctx.BuildExpr(expr)
	if err := v.Validate(cue.Concrete(true)); err != nil {
		w.out = append(w.out, fromCUE(err)...)
		return nil
	}
	e, ok := v.Syntax(cue.Final(), cue.Concrete(true)).(ast.Expr)
	if !ok {
		w.out = append(w.out, v1alpha1.Finding{Rule: RuleSyntax, Message: "not an object"})
		return nil
	}
	return e
}

// judge runs the whole definition: for what the walk does not know.
func (w *walker) judge(r *schema.Resource, expr ast.Expr) {
	def := w.scope.LookupPath(cue.MakePath(cue.Def(r.Definition())))
	if err := def.Unify(w.ctx.BuildExpr(expr)).Validate(cue.Concrete(true)); err != nil {
		w.out = append(w.out, fromCUE(err)...)
	}
}

// fromCUE turns errors of CUE into findings as they are.
func fromCUE(err error) []v1alpha1.Finding {
	var out []v1alpha1.Finding
	for _, e := range errors.Errors(err) {
		path := e.Path()
		if len(path) > 0 && strings.HasPrefix(path[0], "#") {
			path = path[1:]
		}
		format, args := e.Msg()
		f := v1alpha1.Finding{Rule: RuleInvalid, Field: strings.Join(path, "."), Message: fmt.Sprintf(format, args...)}
		for _, p := range errors.Positions(e) {
			if !strings.HasPrefix(p.Filename(), "zz_") {
				f.File, f.Line, f.Column = p.Filename(), p.Line(), p.Column()
			}
		}
		out = append(out, f)
	}
	return out
}

// objectName is kind/namespace/name.
func objectName(r *schema.Resource, expr ast.Expr) string {
	meta := fieldOf(expr, "metadata")
	parts := []string{r.Kind}
	for _, n := range []string{"namespace", "name"} {
		if s, ok := text(fieldOf(meta, n)); ok && s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, "/")
}

// place is where a value is: its path in the object, and where to point when
// something is missing in it.
type place struct {
	path string
	pos  token.Pos
}

func (p place) field(name string, pos token.Pos) place {
	switch {
	case p.path == "":
		p.path = name
	case strings.ContainsFunc(name, func(r rune) bool { return r != '-' && r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }):
		p.path += "[" + name + "]"
	default:
		p.path += "." + name
	}
	return place{p.path, pos}
}

func (p place) item(i int, pos token.Pos) place {
	return place{fmt.Sprintf("%s[%d]", p.path, i), pos}
}

// at points to the value itself.
func (p place) at(v ast.Expr) place {
	if pos := v.Pos(); pos.IsValid() {
		p.pos = pos
	}
	return p
}

// find notes a finding.
func (w *walker) find(rule string, at place, hint, format string, a ...any) {
	f := v1alpha1.Finding{Rule: rule, Object: w.object, Field: at.path, Message: fmt.Sprintf(format, a...), Hint: hint}
	if at.path != "" {
		f.Message = at.path + ": " + f.Message
	}
	if at.pos.IsValid() {
		f.File, f.Line, f.Column = at.pos.Filename(), at.pos.Line(), at.pos.Column()
	}
	w.out = append(w.out, f)
}

// value compares a value with what a definition says. What is wrong with the
// value is found where the value is, what is missing in it at the field's name.
func (w *walker) value(def, v ast.Expr, at place) {
	if want := w.kinds(def); want != nil && !slices.Contains(want, kindOf(v)) {
		w.find(RuleWrongType, at.at(v), "", "must be %s, is %s", wantText(want), isText(v))
		return
	}
	for _, part := range conjuncts(def) {
		before := len(w.out)
		w.part(part, v, at)
		if len(w.out) > before {
			return // one thing at a time about one value
		}
	}
}

// part compares a value of the right kind with one conjunct.
func (w *walker) part(def, v ast.Expr, at place) {
	switch x := def.(type) {
	case *ast.Ident:
		if d := w.syntax[x.Name]; d != nil {
			w.reference(d, v, at)
			return
		}
	case *ast.StructLit:
		w.structure(&definition{body: x}, x, v, at)
		return
	case *ast.ListLit:
		w.list(x, v, at)
		return
	case *ast.BinaryExpr:
		w.choice(x, v, at)
		return
	}
	if !w.fits(def, v) {
		w.misfit(def, v, at.at(v))
	}
}

// reference compares with a definition of a name.
func (w *walker) reference(d *definition, v ast.Expr, at place) {
	if s, ok := d.body.(*ast.StructLit); ok {
		w.structure(d, s, v, at)
		return
	}
	if d.format == "" {
		w.value(d.body, v, at)
		return
	}
	if w.fits(d.body, v) {
		return
	}
	at = at.at(v)
	rule := RuleInvalid
	if k := kindOf(v); k == "integer" || k == "number" {
		rule = RuleOutOfRange
	} else if s, _ := text(v); s == "" {
		w.find(RuleRequired, at, "", "must not be empty")
		return
	}
	w.find(rule, at, "", "%s, is %s", d.format, short(v))
}

// choice compares with a | b | c: words, or forms of which one fits.
func (w *walker) choice(def *ast.BinaryExpr, v ast.Expr, at place) {
	if w.fits(def, v) {
		return
	}
	branches := disjuncts(def)
	if words := w.words(branches); words != nil {
		s, _ := text(v)
		w.find(RuleNotSupported, at.at(v), DidYouMean(s, words), "must be %s, is %s", oneOf(words), short(v))
		return
	}
	for _, b := range branches {
		if _, ok := b.(*ast.BasicLit); ok {
			continue
		}
		if kinds := w.kinds(b); kinds == nil || slices.Contains(kinds, kindOf(v)) {
			w.value(b, v, at)
			return
		}
	}
	w.misfit(def, v, at.at(v))
}

// misfit says in which way a value does not fit a simple constraint.
func (w *walker) misfit(def, v ast.Expr, at place) {
	switch x := def.(type) {
	case *ast.Ident: // int32, int64
		w.find(RuleOutOfRange, at, "", "does not fit into %s bits, is %s", strings.TrimLeft(x.Name, "uint"), short(v))
	case *ast.BasicLit:
		s, _ := text(x)
		w.find(RuleNotSupported, at, "", "must be %q, is %s", s, short(v))
	case *ast.UnaryExpr:
		w.bound(x, v, at)
	case *ast.CallExpr:
		w.limit(x, v, at)
	default:
		w.find(RuleInvalid, at, "", "is not valid: %s", short(v))
	}
}

func (w *walker) bound(x *ast.UnaryExpr, v ast.Expr, at place) {
	limit, _ := text(x.X)
	switch x.Op {
	case token.GEQ:
		if limit == "0" {
			w.find(RuleOutOfRange, at, "", "must not be negative, is %s", short(v))
			return
		}
		w.find(RuleOutOfRange, at, "", "must be at least %s, is %s", limit, short(v))
	case token.LEQ:
		w.find(RuleOutOfRange, at, "", "must be at most %s, is %s", limit, short(v))
	case token.MAT:
		w.find(RuleInvalid, at, "", "must match %s, is %s", limit, short(v))
	case token.NMAT:
		w.find(RuleInvalid, at, "", "must not match %s, is %s", limit, short(v))
	default:
		w.find(RuleInvalid, at, "", "must be %s %s, is %s", x.Op, limit, short(v))
	}
}

func (w *walker) limit(x *ast.CallExpr, v ast.Expr, at place) {
	n := ""
	if len(x.Args) > 0 {
		n, _ = text(x.Args[0])
	}
	switch funcName(x) {
	case "strings.MaxRunes":
		w.find(RuleTooLong, at, "", "must have at most %s characters, is %s", n, short(v))
	case "list.MaxItems":
		if n == "0" {
			w.find(RuleForbidden, at, "", "is not allowed here")
			return
		}
		w.find(RuleTooMany, at, "", "must have at most %s items, has %d", n, len(v.(*ast.ListLit).Elts))
	default:
		w.find(RuleInvalid, at, "", "is not valid: %s", short(v))
	}
}
