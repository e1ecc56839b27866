package validate

import (
	"slices"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"
)

// shape is a struct of a definition: its fields, or patterns for keys.
type shape struct {
	fields   map[string]*ast.Field
	order    []string
	patterns []*ast.Field
	open     bool
}

func shapeOf(s *ast.StructLit) *shape {
	out := &shape{fields: map[string]*ast.Field{}}
	for _, d := range s.Elts {
		switch d := d.(type) {
		case *ast.Ellipsis:
			out.open = true
		case *ast.Field:
			if _, ok := d.Label.(*ast.ListLit); ok {
				out.patterns = append(out.patterns, d)
				continue
			}
			name, _, _ := ast.LabelName(d.Label)
			out.fields[name] = d
			out.order = append(out.order, name)
		}
	}
	return out
}

// structure compares an object with a struct, then with the rules beside it.
func (w *walker) structure(d *definition, s *ast.StructLit, v ast.Expr, at place) {
	obj, ok := v.(*ast.StructLit)
	if !ok {
		return // value has said so
	}
	sh := shapeOf(s)
	present := map[string]place{}
	for _, decl := range obj.Elts {
		f, ok := decl.(*ast.Field)
		if !ok {
			continue
		}
		name, _, err := ast.LabelName(f.Label)
		if err != nil {
			continue
		}
		here := at.field(name, f.Label.Pos())
		if _, twice := present[name]; twice {
			w.find(RuleDuplicate, here, "", "is there twice")
			continue
		}
		present[name] = here
		w.member(d, sh, name, f, here)
	}
	for _, name := range sh.order {
		if _, ok := present[name]; !ok && sh.fields[name].Constraint == token.NOT {
			w.find(RuleRequired, at.field(name, at.pos), "", "is required")
		}
	}
	for _, g := range d.groups {
		w.group(g, present, at)
	}
	for i, r := range d.rules {
		w.rule(r, d.says[i], v, at)
	}
}

// member compares one field of an object.
func (w *walker) member(d *definition, sh *shape, name string, f *ast.Field, here place) {
	if def := sh.fields[name]; def != nil {
		w.value(def.Value, f.Value, here)
		return
	}
	for _, p := range sh.patterns {
		elts := p.Label.(*ast.ListLit).Elts
		if len(elts) == 1 && w.fits(elts[0], ast.NewString(name)) {
			w.value(p.Value, f.Value, here)
			return
		}
	}
	switch {
	case sh.open:
	case len(sh.patterns) > 0:
		text := d.format
		if text == "" {
			text = "is not a valid key"
		}
		w.find(RuleInvalid, here, "", "%s", text)
	default:
		w.find(RuleUnknownField, here, DidYouMean(name, sh.order), "there is no such field")
	}
}

// list compares the items of a list.
func (w *walker) list(def *ast.ListLit, v ast.Expr, at place) {
	l, ok := v.(*ast.ListLit)
	if !ok {
		return // value has said so
	}
	var fixed []ast.Expr
	var rest ast.Expr
	for _, e := range def.Elts {
		if el, ok := e.(*ast.Ellipsis); ok {
			if rest = el.Type; rest == nil {
				rest = ast.NewIdent("_")
			}
			continue
		}
		fixed = append(fixed, e)
	}
	if n := len(fixed) - len(l.Elts); n > 0 {
		w.find(RuleRequired, at, "", "needs at least %s", count(len(fixed), "item"))
	}
	for i, e := range l.Elts {
		here := at.item(i, e.Pos())
		switch {
		case i < len(fixed):
			w.value(fixed[i], e, here)
		case rest != nil:
			w.value(rest, e, here)
		default:
			w.find(RuleTooMany, at, "", "must have at most %s, has %d", count(len(fixed), "item"), len(l.Elts))
			return
		}
	}
}

// group counts the fields that a matchN names: matchN(1, [a, b]) is exactly
// one, matchN(>=1, [a, b]) at least one, and with a last alternative that is a
// matchN itself, none is allowed too.
func (w *walker) group(c *ast.CallExpr, present map[string]place, at place) {
	if funcName(c) != "matchN" || len(c.Args) != 2 {
		return
	}
	list, ok := c.Args[1].(*ast.ListLit)
	if !ok {
		return
	}
	_, exactly := c.Args[0].(*ast.BasicLit)
	none := false
	var names, have []string
	for _, e := range list.Elts {
		s, ok := e.(*ast.StructLit)
		if !ok {
			none = true
			continue
		}
		name, _, _ := ast.LabelName(s.Elts[0].(*ast.Field).Label)
		names = append(names, name)
		if _, ok := present[name]; ok {
			have = append(have, name)
		}
	}
	switch {
	case len(have) == 0 && !none:
		if len(names) == 1 {
			w.find(RuleRequired, at.field(names[0], at.pos), "", "is required")
			return
		}
		w.find(RuleRequired, at, "", "needs one of %s", strings.Join(names, ", "))
	case len(have) > 1 && exactly:
		slices.SortStableFunc(have, func(a, b string) int { return present[a].pos.Compare(present[b].pos) })
		w.find(RuleForbidden, present[have[1]], "", "cannot stand beside %s: only one of them is allowed", have[0])
	}
}

// rule asks CUE about a rule on a whole object. What is wrong with the field it
// is about may have been said already.
func (w *walker) rule(r *ast.CallExpr, s say, v ast.Expr, at place) {
	target, here := v, at
	missing := false
	if s.field != "" {
		for _, name := range strings.Split(s.field, ".") {
			f := member(target, name)
			if missing = f == nil; missing {
				here = at.field(s.field, here.pos)
				break
			}
			target, here = f.Value, here.field(name, f.Label.Pos())
		}
	}
	for _, f := range w.out {
		if f.Field == here.path {
			return
		}
	}
	if w.fits(r, v) {
		return
	}
	rule := RuleInvalid
	switch {
	case missing, s.text == "is required":
		rule = RuleRequired
	case strings.Contains(s.text, "left out"), strings.Contains(s.text, "cannot stand"), strings.Contains(s.text, "only then"):
		rule = RuleForbidden
	}
	w.find(rule, here, "", "%s", s.text)
}

// member returns a field of an object; nil if there is none.
func member(e ast.Expr, name string) *ast.Field {
	s, ok := e.(*ast.StructLit)
	if !ok {
		return nil
	}
	for _, d := range s.Elts {
		if f, ok := d.(*ast.Field); ok {
			if n, _, err := ast.LabelName(f.Label); err == nil && n == name {
				return f
			}
		}
	}
	return nil
}

// fieldOf returns the value of a field; nil if there is none.
func fieldOf(e ast.Expr, name string) ast.Expr {
	if f := member(e, name); f != nil {
		return f.Value
	}
	return nil
}
