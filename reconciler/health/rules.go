package health

import (
	_ "embed"
	"errors"
	"fmt"
	"sync/atomic"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"

	"github.com/writ-os/writ/reconciler/cuerule"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema/v1alpha1"
)

//go:embed schema.cue
var schemaCUE string

// Rules are the health rules of one tree. They never change and may be used by
// several goroutines. nil are no rules: the built-in judgement.
type Rules struct {
	hash  string
	rules []rule

	ctx   *cue.Context
	turns cuerule.Turns        // of evaluating CUE values
	at    atomic.Pointer[rule] // is being evaluated, or was last
	slow  atomic.Pointer[rule] // took too long
}

// rule is one rule, read.
type rule struct {
	cuerule.Rule
	value cue.Value
	asks  bool // speaks of the object
}

// Load reads the health rules of a tree, and what is wrong with them. The error
// is that of a tree that cannot be read.
func Load(t render.Tree) (*Rules, []v1alpha1.Finding, error) { return Reload(t, nil, nil) }

// Reload is Load where the rules may be those of an earlier tree, with what was
// wrong with them.
func Reload(t render.Tree, before *Rules, wrong []v1alpha1.Finding) (*Rules, []v1alpha1.Finding, error) {
	files, err := render.HealthRules(t)
	if err != nil || files.Hash == "" {
		return nil, files.Findings, err
	}
	if before.Hash() == files.Hash {
		return before, wrong, nil
	}
	packages, findings := files.Load()
	r := &Rules{hash: files.Hash, ctx: cuecontext.New(), turns: cuerule.Turns{Limit: judgeTimeout}}
	schema := cuerule.Schema(r.ctx, schemaCUE)
	for _, inst := range packages {
		findings = append(findings, r.read(cuerule.Build(r.ctx, inst), schema)...)
	}
	if len(r.rules) > cuerule.Max {
		findings = append(findings, v1alpha1.Finding{File: render.HealthFolder, Rule: "TooLarge",
			Message: fmt.Sprintf("there are %d health rules, %d are allowed", len(r.rules), cuerule.Max), Hint: "let one rule mean several kinds"})
		r.rules = r.rules[:cuerule.Max]
	}
	return r, findings, nil
}

// Hash changes when a rule does; "" when there is none.
func (r *Rules) Hash() string {
	if r == nil {
		return ""
	}
	return r.hash
}

// read takes the rules of one package.
func (r *Rules) read(p *cuerule.Package, schema cue.Value) []v1alpha1.Finding {
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
