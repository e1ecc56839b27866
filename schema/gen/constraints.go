package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/format"
	"cuelang.org/go/cue/parser"
	"cuelang.org/go/cue/token"
)

// constraints are what people write about types and fields, as syntax trees.
//
//	#Port: int32 & >=1 & <=65535               // a format: copied as it is
//	types: "core/v1.ContainerPort": {
//		containerPort!: #Port              // ! and ? override what the Go type says
//		protocol?: *"TCP" | "UDP" | "SCTP" // the default goes to Go, the rest to CUE
//	}
//	variants: ServiceMetadata: "meta/v1.ObjectMeta": {name?: #DNSLabel}
//
// In a struct, @exactlyOne(a, b), @atMostOne(a, b) and @atLeastOne(a, b)
// count fields; matchIf(...) and matchN(...) are any other rule of the whole
// value, and @say(field, "text") after one says what it asks for. A variant is a
// second definition of a Go type, with these constraints on top of those of the
// type; a field that is _|_ there does not exist in the variant.
type constraints struct {
	formats  []*ast.Field
	types    map[string]*constraint
	variants []*variant
}

// constraint is what is written about one Go type.
type constraint struct {
	fields map[string]*fieldConstraint
	groups []group
	rules  []rule
	used   bool
}

type fieldConstraint struct {
	mark token.Token // NOT (!), OPTION (?) or ILLEGAL: as the Go type says
	expr ast.Expr    // nil: as the Go type says
	def  ast.Expr    // default value, nil if there is none
	used bool
}

// rule is a matchIf(...) or matchN(...) on the whole value, with the field it
// is about and what it asks for, from the @say after it.
type rule struct {
	expr       ast.Expr
	field, say string
}

// group says how many of some fields may be present.
type group struct {
	rule   string // exactlyOne, atMostOne, atLeastOne
	fields []string
}

// variant is a second definition of a Go type under a name of its own.
type variant struct {
	name string
	of   string
	constraint
}

// readConstraints parses every CUE file of the folder.
func readConstraints(dir string) (*constraints, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.cue"))
	if err != nil {
		return nil, err
	}
	c := &constraints{types: map[string]*constraint{}}
	for _, name := range files {
		src, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		f, err := parser.ParseFile(name, src, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		if err := c.add(f); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return c, nil
}

func (c *constraints) add(f *ast.File) error {
	for _, d := range f.Decls {
		field, ok := d.(*ast.Field)
		if !ok {
			continue // package, imports, comments
		}
		switch name := labelOf(field); {
		case strings.HasPrefix(name, "#"):
			c.formats = append(c.formats, field)
		case name == "types":
			if err := c.addTypes(field.Value); err != nil {
				return err
			}
		case name == "variants":
			if err := c.addVariants(field.Value); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s: want a #format, types or variants", name)
		}
	}
	return nil
}

func (c *constraints) addTypes(v ast.Expr) error {
	for _, f := range structFields(v) {
		key := labelOf(f)
		if c.types[key] != nil {
			return fmt.Errorf("%s is constrained twice", key)
		}
		t, err := readConstraint(f.Value)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		c.types[key] = t
	}
	return nil
}

func (c *constraints) addVariants(v ast.Expr) error {
	for _, f := range structFields(v) {
		for _, of := range structFields(f.Value) {
			t, err := readConstraint(of.Value)
			if err != nil {
				return fmt.Errorf("%s: %w", labelOf(f), err)
			}
			c.variants = append(c.variants, &variant{name: labelOf(f), of: labelOf(of), constraint: *t})
		}
	}
	return nil
}

// readConstraint reads the struct written for one type.
func readConstraint(v ast.Expr) (*constraint, error) {
	s, ok := v.(*ast.StructLit)
	if !ok {
		return nil, fmt.Errorf("want a struct")
	}
	c := &constraint{fields: map[string]*fieldConstraint{}}
	for _, d := range s.Elts {
		switch d := d.(type) {
		case *ast.Field:
			fc := &fieldConstraint{mark: d.Constraint}
			fc.expr, fc.def = splitDefault(d.Value)
			if id, ok := fc.expr.(*ast.Ident); ok && id.Name == "_" {
				fc.expr = nil // only the mark is meant
			}
			c.fields[labelOf(d)] = fc
		case *ast.EmbedDecl:
			c.rules = append(c.rules, rule{expr: d.Expr})
		case *ast.Attribute:
			key, body := d.Split()
			if key == "say" {
				if err := c.say(body); err != nil {
					return nil, err
				}
				continue
			}
			if !slices.Contains([]string{"exactlyOne", "atMostOne", "atLeastOne"}, key) {
				return nil, fmt.Errorf("unknown rule @%s", key)
			}
			g := group{rule: key}
			for _, n := range strings.Split(body, ",") {
				g.fields = append(g.fields, strings.TrimSpace(n))
			}
			c.groups = append(c.groups, g)
		}
	}
	return c, nil
}

// say gives the last rule its field and text.
func (c *constraint) say(body string) error {
	name, text, ok := strings.Cut(body, ",")
	if !ok || len(c.rules) == 0 || c.rules[len(c.rules)-1].say != "" {
		return fmt.Errorf("@say(%s): want @say(field, \"text\") after a rule", body)
	}
	text, err := strconv.Unquote(strings.TrimSpace(text))
	if err != nil {
		return fmt.Errorf("@say(%s): %w", body, err)
	}
	r := &c.rules[len(c.rules)-1]
	r.field, r.say = strings.TrimSpace(name), text
	return nil
}

// splitDefault takes the default out of a disjunction: `*1 | int` is int with
// the default 1, `*"A" | "B"` is "A" | "B" with the default "A".
func splitDefault(e ast.Expr) (rest, def ast.Expr) {
	parts := disjuncts(e)
	var others []ast.Expr
	literals := true
	for _, p := range parts {
		if u, ok := p.(*ast.UnaryExpr); ok && u.Op == token.MUL {
			def = u.X
			continue
		}
		if _, ok := p.(*ast.BasicLit); !ok {
			literals = false
		}
		others = append(others, p)
	}
	if def == nil {
		return e, nil
	}
	if literals {
		others = append([]ast.Expr{def}, others...)
	}
	return ast.NewBinExpr(token.OR, others...), def
}

// disjuncts flattens a | b | c, through parentheses.
func disjuncts(e ast.Expr) []ast.Expr {
	switch x := e.(type) {
	case *ast.ParenExpr:
		return disjuncts(x.X)
	case *ast.BinaryExpr:
		if x.Op == token.OR {
			return append(disjuncts(x.X), disjuncts(x.Y)...)
		}
	}
	return []ast.Expr{e}
}

// structFields returns the fields of a struct literal.
func structFields(e ast.Expr) []*ast.Field {
	s, ok := e.(*ast.StructLit)
	if !ok {
		return nil
	}
	var out []*ast.Field
	for _, d := range s.Elts {
		if f, ok := d.(*ast.Field); ok {
			out = append(out, f)
		}
	}
	return out
}

func labelOf(f *ast.Field) string {
	name, _, err := ast.LabelName(f.Label)
	if err != nil {
		return ""
	}
	return name
}

// source prints a syntax tree on as few lines as it was written on.
func source(n ast.Node) string {
	b, err := format.Node(n)
	if err != nil {
		panic(err) // it was parsed before
	}
	return string(b)
}
