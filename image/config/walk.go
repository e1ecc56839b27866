package config

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/cuecontext"
	cueliteral "cuelang.org/go/cue/literal"
	"cuelang.org/go/cue/token"

	"github.com/writ-os/writ/schema/v1alpha1"
)

//go:embed node.cue
var definition []byte

// walker goes through a file and its definition side by side, and asks CUE
// about every value alone: so all mistakes are found at once, each with its
// place, as schema/validate does it for objects.
type walker struct {
	ctx  *cue.Context
	root cue.Value
	file string
	out  []v1alpha1.Finding
}

func newWalker() *walker {
	ctx := cuecontext.New()
	v := ctx.CompileBytes(definition, cue.Filename("node.cue"))
	return &walker{ctx: ctx, root: v.LookupPath(cue.MakePath(cue.Def("#Node")))}
}

// place is where a value is, and where to point when something is missing.
type place struct {
	path string
	pos  token.Pos
}

// find notes a finding.
func (w *walker) find(rule string, at place, hint, format string, a ...any) {
	f := v1alpha1.Finding{File: w.file, Field: at.path, Rule: rule, Hint: hint, Message: fmt.Sprintf(format, a...)}
	if at.path != "" {
		f.Message = at.path + ": " + f.Message
	}
	if at.pos.IsValid() {
		f.Line, f.Column = at.pos.Line(), at.pos.Column()
	}
	w.out = append(w.out, f)
}

func (w *walker) sorted() []v1alpha1.Finding {
	slices.SortStableFunc(w.out, func(a, b v1alpha1.Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Field, b.Field))
	})
	return w.out
}

// member is a field of the definition.
type member struct {
	value    cue.Value
	say      string
	required bool
}

func members(def cue.Value) (map[string]member, []string) {
	out := map[string]member{}
	var order []string
	it, err := def.Fields(cue.Optional(true))
	if err != nil {
		return out, nil
	}
	for it.Next() {
		sel := it.Selector()
		m := member{value: it.Value(), required: sel.ConstraintType() == cue.RequiredConstraint}
		a := it.Value().Attribute("say")
		m.say, _ = strconv.Unquote(a.Contents())
		if m.say == "" {
			m.say = a.Contents()
		}
		out[sel.Unquoted()] = m
		order = append(order, sel.Unquoted())
	}
	return out, order
}

// object compares an object with its definition.
func (w *walker) object(def cue.Value, s *ast.StructLit, at place) {
	known, order := members(def)
	have := map[string]bool{}
	for _, d := range s.Elts {
		f, ok := d.(*ast.Field)
		if !ok {
			continue
		}
		name, _, err := ast.LabelName(f.Label)
		if err != nil {
			continue
		}
		here := place{join(at.path, name), f.Label.Pos()}
		m, ok := known[name]
		switch {
		case have[name]:
			w.find("Duplicate", here, "", "is there twice")
		case !ok:
			w.find("UnknownField", here, didYouMean(name, order), "there is no such field")
		default:
			w.value(m.value, m.say, f.Value, here)
		}
		have[name] = true
	}
	for _, name := range order {
		if m := known[name]; m.required && !have[name] {
			w.find("Required", place{join(at.path, name), at.pos}, "", "is required: %s", m.say)
		}
	}
}

// value compares a value with its definition.
func (w *walker) value(def cue.Value, say string, e ast.Expr, at place) {
	if p := e.Pos(); p.IsValid() {
		at.pos = p
	}
	switch x := e.(type) {
	case *ast.StructLit:
		if def.IncompleteKind() == cue.StructKind {
			w.object(def, x, at)
			return
		}
	case *ast.ListLit:
		if def.IncompleteKind() == cue.ListKind {
			w.list(def, say, x, at)
			return
		}
	case *ast.BasicLit, *ast.UnaryExpr:
		if def.Unify(w.ctx.BuildExpr(e)).Validate(cue.Concrete(true)) == nil {
			return
		}
		rule, hint := "Invalid", ""
		if b, ok := e.(*ast.BasicLit); ok && b.Kind != token.STRING && def.IncompleteKind() == cue.StringKind {
			rule, hint = "WrongType", "put it into quotes"
		}
		w.find(rule, at, hint, "must be %s%s", say, shown(e, at.path))
		return
	}
	w.find("WrongType", at, "", "must be %s", say)
}

func (w *walker) list(def cue.Value, say string, l *ast.ListLit, at place) {
	before := len(w.out)
	item := def.LookupPath(cue.MakePath(cue.AnyIndex))
	for i, e := range l.Elts {
		w.value(item, say, e, place{fmt.Sprintf("%s[%d]", at.path, i), e.Pos()})
	}
	if len(w.out) == before && def.Unify(w.ctx.BuildExpr(l)).Validate(cue.Concrete(true)) != nil {
		w.find("OutOfRange", at, "", "has %d items, which are too many or too few", len(l.Elts))
	}
}

// shown is how a value stands in a message: not at all where it is secret.
func shown(e ast.Expr, path string) string {
	for _, s := range secrets {
		if strings.Join(s, ".") == path {
			return ""
		}
	}
	b, ok := e.(*ast.BasicLit)
	if !ok || b.Kind == token.NULL {
		return ", is empty"
	}
	text := b.Value
	if b.Kind == token.STRING {
		if s, err := cueliteral.Unquote(b.Value); err == nil {
			text = s
		}
	}
	if strings.Contains(text, "-----BEGIN") {
		return "" // it may be a key in the wrong place
	}
	if r := []rune(text); len(r) > 64 {
		text = string(r[:64]) + "..."
	}
	return fmt.Sprintf(", is %q", text)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// locate finds the place of a path in a file: of the value or, where it is not
// there, of the nearest object around it.
func locate(e ast.Expr, steps ...any) place {
	at := place{pos: e.Pos()}
	for _, step := range steps {
		var next ast.Expr
		switch s := step.(type) {
		case string:
			at.path = join(at.path, s)
			if o, ok := e.(*ast.StructLit); ok {
				for _, d := range o.Elts {
					if f, ok := d.(*ast.Field); ok {
						if n, _, err := ast.LabelName(f.Label); err == nil && n == s {
							next, at.pos = f.Value, f.Label.Pos()
						}
					}
				}
			}
		case int:
			at.path = fmt.Sprintf("%s[%d]", at.path, s)
			if l, ok := e.(*ast.ListLit); ok && s < len(l.Elts) {
				next, at.pos = l.Elts[s], l.Elts[s].Pos()
			}
		}
		e = next
	}
	return at
}
