package validate

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"sync"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/format"
	"cuelang.org/go/cue/parser"
	"cuelang.org/go/cue/token"

	writcue "github.com/writ-os/writ/schema/cue"
)

// definitions is the CUE of every kind, as a value to test with and as syntax
// to walk along. It is built when the first object is refused.
type definitions struct {
	ctx    *cue.Context
	scope  cue.Value
	syntax map[string]*definition

	// CUE writes into the values it evaluates, even into those it has finished
	// with: of all that ask, one evaluates at a time.
	mu    sync.Mutex
	parts map[ast.Expr]cue.Value // of definitions
}

// definition is one `#Name: close({...}) & matchN(...) & matchIf(...) @say(...)`.
type definition struct {
	name string
	// body is the struct, or whatever a format is.
	body ast.Expr
	// groups count fields, rules are all others; says go with the rules.
	groups []*ast.CallExpr
	rules  []*ast.CallExpr
	says   []say
	// format says what a format asks for; "" for structs.
	format string
}

// say is what a rule asks for, and of which field.
type say struct{ field, text string }

var definitionsOnce = sync.OnceValue(func() *definitions {
	d, err := loadDefinitions()
	if err != nil {
		panic("validate: " + err.Error()) // the files are generated and tested
	}
	return d
})

func loadDefinitions() (*definitions, error) {
	d := &definitions{ctx: cuecontext.New(), syntax: map[string]*definition{}, parts: map[ast.Expr]cue.Value{}}
	inst := build.NewContext().NewInstance("writ", nil)
	names, err := fs.Glob(writcue.Definitions, "*.cue")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		src, err := writcue.Definitions.ReadFile(name)
		if err != nil {
			return nil, err
		}
		f, err := parser.ParseFile(name, src)
		if err != nil {
			return nil, err
		}
		for _, decl := range f.Decls {
			if field, ok := decl.(*ast.Field); ok {
				if err := d.add(field); err != nil {
					return nil, err
				}
			}
		}
		if err := inst.AddSyntax(f); err != nil {
			return nil, err
		}
	}
	if err := inst.Complete(); err != nil {
		return nil, err
	}
	d.scope = d.ctx.BuildInstance(inst)
	return d, d.scope.Err()
}

// add takes a definition apart.
func (d *definitions) add(f *ast.Field) error {
	name, _, err := ast.LabelName(f.Label)
	if err != nil {
		return err
	}
	def := &definition{name: name, body: f.Value}
	for _, a := range f.Attrs {
		if key, body := a.Split(); key == "say" {
			s, err := parseSay(body)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			def.says = append(def.says, s)
		}
	}
	parts := conjuncts(f.Value)
	if head, ok := structOf(parts[0]); ok {
		def.body = head
		calls := make([]*ast.CallExpr, 0, len(parts))
		for _, p := range parts[1:] {
			if c, ok := p.(*ast.CallExpr); ok {
				calls = append(calls, c)
			}
		}
		if isMap(head) {
			def.format, def.says = sayText(def.says), nil
			def.groups = calls
		} else {
			n := len(calls) - len(def.says)
			def.groups, def.rules = calls[:n], calls[n:]
		}
	} else {
		def.format = sayText(def.says)
	}
	d.syntax[name] = def
	return nil
}

func sayText(says []say) string {
	if len(says) == 0 {
		return ""
	}
	return says[0].text
}

// parseSay reads `"field","text"` or `"text"`.
func parseSay(body string) (say, error) {
	first, err := strconv.QuotedPrefix(body)
	if err != nil {
		return say{}, err
	}
	second := strings.TrimPrefix(strings.TrimSpace(body[len(first):]), ",")
	text, err := strconv.Unquote(first)
	if err != nil || second == "" {
		return say{text: text}, err
	}
	field := text
	text, err = strconv.Unquote(strings.TrimSpace(second))
	return say{field, text}, err
}

// conjuncts flattens a & b & c, through parentheses.
func conjuncts(e ast.Expr) []ast.Expr { return flatten(e, token.AND) }

// disjuncts flattens a | b | c, through parentheses.
func disjuncts(e ast.Expr) []ast.Expr { return flatten(e, token.OR) }

func flatten(e ast.Expr, op token.Token) []ast.Expr {
	switch x := e.(type) {
	case *ast.ParenExpr:
		if b, ok := x.X.(*ast.BinaryExpr); !ok || b.Op == op {
			return flatten(x.X, op)
		}
		return []ast.Expr{x.X}
	case *ast.BinaryExpr:
		if x.Op == op {
			return append(flatten(x.X, op), flatten(x.Y, op)...)
		}
	}
	return []ast.Expr{e}
}

// structOf returns the struct of {...} or close({...}).
func structOf(e ast.Expr) (*ast.StructLit, bool) {
	if c, ok := e.(*ast.CallExpr); ok && funcName(c) == "close" && len(c.Args) == 1 {
		e = c.Args[0]
	}
	s, ok := e.(*ast.StructLit)
	return s, ok
}

// isMap says whether a struct has patterns for keys instead of fields.
func isMap(s *ast.StructLit) bool {
	for _, d := range s.Elts {
		if f, ok := d.(*ast.Field); ok {
			if _, ok := f.Label.(*ast.ListLit); ok {
				return true
			}
		}
	}
	return false
}

func funcName(c *ast.CallExpr) string {
	switch f := c.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		pkg, _ := f.X.(*ast.Ident)
		sel, _, _ := ast.LabelName(f.Sel)
		if pkg != nil {
			return pkg.Name + "." + sel
		}
	}
	return ""
}

// fits asks CUE whether a value fits a part of a definition.
func (d *definitions) fits(part ast.Expr, value ast.Expr) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, ok := d.parts[part]
	if !ok {
		p = d.compile(part)
		d.parts[part] = p
	}
	return p.Unify(d.ctx.BuildExpr(value)).Validate(cue.Concrete(true)) == nil
}

// compile builds a part on its own. Its syntax is resolved within its file
// already, so that a copy must be built.
func (d *definitions) compile(part ast.Expr) cue.Value {
	src, err := format.Node(part)
	if err == nil {
		part, err = parser.ParseExpr("zz_part.cue", src)
	}
	if err != nil {
		panic("validate: " + err.Error()) // it was parsed before
	}
	return d.ctx.BuildExpr(part, cue.Scope(d.scope), cue.InferBuiltins(true))
}
