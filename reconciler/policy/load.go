package policy

import (
	_ "embed"
	"fmt"
	"path"
	"strings"

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
var loadThere = sandbox.Func[render.RuleSources, loaded]{Name: "policy.load", Max: maxLoaded, Do: func(s render.RuleSources, _ func(int)) (out loaded) {
	kept.With(s, load, func(l *compiledSet) { out = l.told })
	return out
}}

// Functions are what a child must know that holds objects against policies.
func Functions() []sandbox.Function { return []sandbox.Function{loadThere, checkThere} }

// loaded is what the server is told of rules.
type loaded struct {
	Rules    []rule
	Weights  []weight
	Findings []v1alpha1.Finding
}

// compiledSet is rules as the child knows them.
type compiledSet struct {
	ctx   *cue.Context
	rules []compiled
	told  loaded
}

// compiled is one rule, read.
type compiled struct {
	*rule
	message, hint string
	warn          bool
	require       cue.Value
}

var kept cuerule.Kept[*compiledSet]

func load(files render.RuleSources) *compiledSet {
	packages, findings := files.Load()
	s := &compiledSet{ctx: cuecontext.New()}
	schema, own := cuerule.Schema(s.ctx, schemaCUE), cuerule.Schema(s.ctx, weightCUE)
	for _, inst := range packages {
		findings = append(findings, s.read(cuerule.Build(s.ctx, inst), schema, own)...)
	}
	s.told.Findings = findings
	for i := range s.rules {
		s.told.Rules = append(s.told.Rules, *s.rules[i].rule)
	}
	return s
}

// read takes the rules of one package.
func (s *compiledSet) read(p *cuerule.Package, schema, weights cue.Value) []v1alpha1.Finding {
	weighs := map[string]bool{}
	return p.Read(func(head cuerule.Rule, own cue.Value) error {
		if own.LookupPath(cue.ParsePath("finding")).Exists() {
			weighs[head.Name] = true
			w := weight{Rule: head}
			if err := w.read(own.Unify(weights)); err != nil {
				return err
			}
			s.told.Weights = append(s.told.Weights, w)
			return nil
		}
		r := compiled{rule: &rule{Rule: head, Quick: compile(own.LookupPath(cue.ParsePath("require")), 0)}}
		if err := r.read(own.Unify(schema)); err != nil {
			return err
		}
		s.rules = append(s.rules, r)
		return nil
	}, func(r *cuerule.Rule, f *v1alpha1.Finding) {
		if path.Dir(f.File) != p.Dir {
			f.Line = 0 // of the schema, or of what the package imports
		}
		field := f.Field[strings.LastIndexByte(f.Field, '.')+1:]
		f.Rule, f.Field, f.Message = "Policy", "", fmt.Sprintf("policy %s: %s: %s", r.Name, field, f.Message)
		f.Hint = "a rule has match, except, message, hint, severity (refuse or warn) and require"
		if weighs[r.Name] {
			f.Hint = "a rule of a finding has finding (" + strings.Join(Weighed, ", ") + "), severity (refuse, warn or ignore), match and except"
		}
	})
}

// read decodes what does not depend on an object, and holds the rest against
// the schema.
func (r *compiled) read(v cue.Value) error {
	r.require = v.LookupPath(cue.ParsePath("require"))
	if err := r.require.Err(); err != nil {
		return err
	}
	if err := r.ReadMatch(v); err != nil {
		return err
	}
	var severity string
	for _, f := range []struct {
		name string
		into any
	}{{"match.podSpec", &r.PodSpec}, {"message", &r.message}, {"hint", &r.hint}, {"severity", &severity}} {
		if err := cuerule.Decode(v, f.name, f.into); err != nil {
			return err
		}
	}
	r.warn = severity == "warn"
	return v.Validate()
}
