package health

import (
	_ "embed"
	"errors"
	"fmt"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"

	"github.com/writ-os/writ/reconciler/cuerule"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/sandbox"
	"github.com/writ-os/writ/schema/v1alpha1"
)

//go:embed schema.cue
var schemaCUE string

// maxLoaded bounds what the server is told of rules, in bytes.
const maxLoaded = 1 << 20

// loadThere loads rules in a child.
var loadThere = sandbox.Func[render.RuleSources, loaded]{Name: "health.load", Max: maxLoaded, Do: func(s render.RuleSources, _ func(int)) (out loaded) {
	kept.With(s, load, func(l *compiledRules) { out = l.told })
	return out
}}

// Functions are what a child must know that judges by health rules.
func Functions() []sandbox.Function { return []sandbox.Function{loadThere, judgeThere} }

// loaded is what the server is told of rules.
type loaded struct {
	Rules    []cuerule.Rule
	Findings []v1alpha1.Finding
}

// compiledRules is rules as the child knows them.
type compiledRules struct {
	ctx   *cue.Context
	rules []rule
	told  loaded
}

// rule is one rule, read.
type rule struct {
	cuerule.Rule
	value cue.Value
	asks  bool // speaks of the object
}

var kept cuerule.Kept[*compiledRules]

func load(files render.RuleSources) *compiledRules {
	packages, findings := files.Load()
	r := &compiledRules{ctx: cuecontext.New()}
	schema := cuerule.Schema(r.ctx, schemaCUE)
	for _, inst := range packages {
		findings = append(findings, r.read(cuerule.Build(r.ctx, inst), schema)...)
	}
	r.told.Findings = findings
	for i := range r.rules {
		r.told.Rules = append(r.told.Rules, r.rules[i].Rule)
	}
	return r
}

// read takes the rules of one package.
func (r *compiledRules) read(p *cuerule.Package, schema cue.Value) []v1alpha1.Finding {
	found := p.Read(func(head cuerule.Rule, own cue.Value) error {
		u := rule{Rule: head}
		if err := u.read(own, schema); err != nil {
			return err
		}
		r.rules = append(r.rules, u)
		return nil
	}, func(u *cuerule.Rule, f *v1alpha1.Finding) {
		f.Rule, f.Message = "HealthRule", fmt.Sprintf("health rule %s: %s", u.Name, f.Message)
	})
	if !p.HasRules() && len(found) == 0 {
		return []v1alpha1.Finding{{File: p.Place().Filename, Line: 1, Column: 1, Rule: "HealthRule",
			Message: fmt.Sprintf("the package has no field rules, and CUE files in the folder %s are health rules", p.Dir),
			Hint:    "write rules, or move manifests to another folder"}}
	}
	return found
}

// read decodes what does not depend on an object, and holds the rest against
// the schema.
func (u *rule) read(own, schema cue.Value) error {
	u.asks = own.LookupPath(cue.ParsePath("object")).Exists()
	u.value = own.Unify(schema)
	if err := u.ReadMatch(u.value); err != nil {
		return err
	}
	if err := u.value.Validate(); err != nil {
		return err
	}
	if !own.LookupPath(cue.ParsePath("healthy")).Exists() {
		return errors.New("healthy is missing: say what the object looks like when all is well")
	}
	return nil
}
