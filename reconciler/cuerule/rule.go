package cuerule

import (
	_ "embed"
	"path"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/token"

	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Max bounds the rules of one sort of one commit.
const Max = 500

//go:embed match.cue
var matchCUE string

// Schema compiles the schema of a sort of rules: the definition #Rule, which
// may speak of _match and _except.
func Schema(ctx *cue.Context, text string) cue.Value {
	return ctx.CompileString(matchCUE+text, cue.Filename("schema.cue")).LookupPath(cue.ParsePath("#Rule"))
}

// Package is the rules of one folder: a CUE package with the field rules.
type Package struct {
	Dir   string
	value cue.Value
	rules cue.Value
}

// Build makes a package of what render has loaded.
func Build(ctx *cue.Context, inst *build.Instance) *Package {
	v := ctx.BuildInstance(inst)
	return &Package{Dir: strings.TrimPrefix(inst.Dir, "/"), value: v, rules: v.LookupPath(cue.ParsePath("rules"))}
}

// HasRules says whether the package has the field rules.
func (p *Package) HasRules() bool { return p.rules.Exists() }

// Place is where the package is written.
func (p *Package) Place() token.Position { return place(p.Dir, p.value) }

// Rule is what rules of every sort have.
type Rule struct {
	Name string
	Pos  token.Position

	Match  Selector
	Except []Selector
}

// Read has one read each rule of a package, by its own fields. What that finds
// wrong become findings, in the words of wrong and at the place of the rule
// where they have none; otherwise it is what CUE finds wrong with the package.
func (p *Package) Read(one func(r Rule, own cue.Value) error, wrong func(r *Rule, f *v1alpha1.Finding)) []v1alpha1.Finding {
	var out []v1alpha1.Finding
	for it, err := p.rules.Fields(); err == nil && it.Next(); { // else there are none, or the package says why
		r := Rule{Name: it.Selector().Unquoted(), Pos: place(p.Dir, it.Value())}
		if err := one(r, it.Value()); err != nil {
			out = append(out, r.findings(p.Dir, err, wrong)...)
		}
	}
	if err := p.value.Err(); err != nil && len(out) == 0 {
		return render.CUEFindings(p.Dir, err)
	}
	return out
}

func (r *Rule) findings(dir string, err error, wrong func(*Rule, *v1alpha1.Finding)) []v1alpha1.Finding {
	out := render.CUEFindings(dir, err)
	for i := range out {
		f := &out[i]
		f.Object = ""
		wrong(r, f)
		if f.Line == 0 {
			f.File, f.Line, f.Column = r.Pos.Filename, r.Pos.Line, r.Pos.Column
		}
	}
	return out
}

// Decode reads a field that must be concrete.
func Decode(v cue.Value, field string, into any) error {
	part := v.LookupPath(cue.ParsePath(field))
	if err := part.Validate(cue.Concrete(true)); err != nil {
		return err
	}
	return part.Decode(into)
}

// place is where a value is written in the files of a folder.
func place(dir string, v cue.Value) token.Position {
	at := []token.Pos{v.Pos()}
	_, parts := v.Expr()
	for _, p := range parts {
		at = append(at, p.Pos())
	}
	for it, err := v.Fields(); err == nil && it.Next(); {
		at = append(at, it.Value().Pos())
	}
	for _, p := range at {
		if file := strings.TrimPrefix(p.Filename(), "/"); p.IsValid() && path.Dir(file) == dir {
			out := p.Position()
			out.Filename = file
			return out
		}
	}
	return token.Position{Filename: dir, Line: 1, Column: 1}
}
