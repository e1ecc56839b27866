package policy

import (
	_ "embed"
	"fmt"
	"path"
	"strings"
	"time"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"

	"github.com/writ-os/writ/reconciler/cuerule"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema/v1alpha1"
)

//go:embed schema.cue
var schemaCUE string

// checkTimeout bounds what the rules make of the objects of one unit.
const checkTimeout = 10 * time.Second

// Set is the policies of one tree. It never changes and may be used by several
// goroutines. nil is the set of no rules.
type Set struct {
	hash  string
	rules []rule

	ctx   *cue.Context
	turns cuerule.Turns // of evaluating CUE values
}

// rule is one rule, read.
type rule struct {
	cuerule.Rule
	message, hint string
	warn          bool
	podSpec       bool
	require       cue.Value
	quick         accept // nil: CUE decides alone
}

// Load reads the policies of a tree, and what is wrong with them. The error is
// that of a tree that cannot be read.
func Load(t render.Tree) (*Set, []v1alpha1.Finding, error) { return Reload(t, nil, nil) }

// Reload is Load where the policies may be those of an earlier tree, with what
// was wrong with them.
func Reload(t render.Tree, before *Set, wrong []v1alpha1.Finding) (*Set, []v1alpha1.Finding, error) {
	files, err := render.Policies(t)
	if err != nil || files.Hash == "" {
		return nil, files.Findings, err
	}
	if before.Hash() == files.Hash {
		return before, wrong, nil
	}
	packages, findings := files.Load()
	s := &Set{hash: files.Hash, ctx: cuecontext.New(), turns: cuerule.Turns{Limit: checkTimeout}}
	schema := cuerule.Schema(s.ctx, schemaCUE)
	for _, inst := range packages {
		findings = append(findings, s.read(cuerule.Build(s.ctx, inst), schema)...)
	}
	if len(s.rules) > cuerule.Max {
		findings = append(findings, v1alpha1.Finding{File: render.PolicyFolder, Rule: "TooLarge", Message: fmt.Sprintf("there are more than %d rules", cuerule.Max)})
	}
	return s, findings, nil
}

// Hash changes when a policy does; "" when there is none.
func (s *Set) Hash() string {
	if s == nil {
		return ""
	}
	return s.hash
}

// read takes the rules of one package.
func (s *Set) read(p *cuerule.Package, schema cue.Value) []v1alpha1.Finding {
	return p.Read(func(head cuerule.Rule, own cue.Value) error {
		r := rule{Rule: head, quick: compile(own.LookupPath(cue.ParsePath("require")), 0)}
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
	})
}

// read decodes what does not depend on an object, and holds the rest against
// the schema.
func (r *rule) read(v cue.Value) error {
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
	}{{"match.podSpec", &r.podSpec}, {"message", &r.message}, {"hint", &r.hint}, {"severity", &severity}} {
		if err := cuerule.Decode(v, f.name, f.into); err != nil {
			return err
		}
	}
	r.warn = severity == "warn"
	return v.Validate()
}
