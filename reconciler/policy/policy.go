package policy

import (
	_ "embed"
	"fmt"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/token"

	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema/v1alpha1"
)

//go:embed schema.cue
var schemaCUE string

// Limits of one commit's policies.
const (
	maxRules     = 500
	checkTimeout = 10 * time.Second // of the objects of one unit
)

// Set is the policies of one tree. It never changes and may be used by several
// goroutines. nil is the set of no rules.
type Set struct {
	hash  string
	rules []rule

	// CUE writes into the values it evaluates: they are evaluated by one
	// goroutine at a time, the one that has put something into turns.
	ctx   *cue.Context
	limit time.Duration // of the objects of one unit
	turns chan struct{}
	late  atomic.Pointer[turn] // the last that ran out of time
}

// rule is one rule, read.
type rule struct {
	name, message, hint string
	warn                bool
	podSpec             bool
	match               selector
	except              []selector
	require             cue.Value
	quick               accept // nil: CUE decides alone
	pos                 token.Position
}

// selector says which objects are meant; what is empty does not matter.
type selector struct {
	versions, kinds, namespaces, names []string
	labels                             map[string]string
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
	hash := files.Hash
	s := &Set{hash: hash, ctx: cuecontext.New(), limit: checkTimeout, turns: make(chan struct{}, 1)}
	schema := s.ctx.CompileString(schemaCUE, cue.Filename("schema.cue"))
	for _, inst := range packages {
		dir := strings.TrimPrefix(inst.Dir, "/")
		v := s.ctx.BuildInstance(inst)
		found := s.read(dir, v.LookupPath(cue.ParsePath("rules")), schema.LookupPath(cue.ParsePath("#Rule")))
		if err := v.Err(); err != nil && len(found) == 0 {
			found = render.CUEFindings(dir, err)
		}
		findings = append(findings, found...)
	}
	if len(s.rules) > maxRules {
		findings = append(findings, v1alpha1.Finding{File: render.PolicyFolder, Rule: "TooLarge", Message: fmt.Sprintf("there are more than %d rules", maxRules)})
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
func (s *Set) read(dir string, rules, schema cue.Value) []v1alpha1.Finding {
	var findings []v1alpha1.Finding
	it, err := rules.Fields()
	if err != nil {
		return nil // there are none, or the package says why
	}
	for it.Next() {
		r := rule{name: it.Selector().Unquoted(), pos: place(dir, it.Value())}
		r.quick = compile(it.Value().LookupPath(cue.ParsePath("require")), 0)
		if err := r.read(it.Value().Unify(schema)); err != nil {
			for _, f := range render.CUEFindings(dir, err) {
				f.Object, f.Rule = "", "Policy"
				if f.Line == 0 || path.Dir(f.File) != dir {
					f.File, f.Line, f.Column = r.pos.Filename, r.pos.Line, r.pos.Column
				}
				field := f.Field[strings.LastIndexByte(f.Field, '.')+1:]
				f.Message, f.Field = fmt.Sprintf("policy %s: %s: %s", r.name, field, f.Message), ""
				f.Hint = "a rule has match, except, message, hint, severity (refuse or warn) and require"
				findings = append(findings, f)
			}
			continue
		}
		s.rules = append(s.rules, r)
	}
	return findings
}

// place is where a rule is written.
func place(dir string, v cue.Value) token.Position {
	var at token.Position
	for _, p := range append([]token.Pos{v.Pos()}, positions(v)...) {
		if file := strings.TrimPrefix(p.Filename(), "/"); p.IsValid() && path.Dir(file) == dir {
			at = p.Position()
			at.Filename = file
			return at
		}
	}
	return token.Position{Filename: dir, Line: 1, Column: 1}
}

// positions are those of the expressions that a value is made of.
func positions(v cue.Value) []token.Pos {
	var out []token.Pos
	_, parts := v.Expr()
	for _, p := range parts {
		out = append(out, p.Pos())
	}
	if it, err := v.Fields(); err == nil {
		for it.Next() {
			out = append(out, it.Value().Pos())
		}
	}
	return out
}

func (r *rule) read(v cue.Value) error {
	if err := v.LookupPath(cue.ParsePath("require")).Err(); err != nil {
		return err
	}
	var head struct {
		Match struct {
			APIVersion, Kind, Namespace, Name any
			Labels                            map[string]string
			PodSpec                           bool
		}
		Except                  []struct{ Kind, Namespace, Name any }
		Message, Hint, Severity string
	}
	for name, into := range map[string]any{"match": &head.Match, "except": &head.Except, "message": &head.Message, "hint": &head.Hint, "severity": &head.Severity} {
		part := v.LookupPath(cue.ParsePath(name))
		if err := part.Validate(cue.Concrete(true)); err != nil {
			return err
		}
		if err := part.Decode(into); err != nil {
			return err
		}
	}
	if err := v.Validate(); err != nil {
		return err
	}
	r.message, r.hint, r.warn, r.podSpec = head.Message, head.Hint, head.Severity == "warn", head.Match.PodSpec
	r.match = selector{texts(head.Match.APIVersion), texts(head.Match.Kind), texts(head.Match.Namespace), texts(head.Match.Name), head.Match.Labels}
	for _, e := range head.Except {
		r.except = append(r.except, selector{kinds: texts(e.Kind), namespaces: texts(e.Namespace), names: texts(e.Name)})
	}
	r.require = v.LookupPath(cue.ParsePath("require"))
	return nil
}

// texts reads one text or several.
func texts(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, t := range v {
			if s, ok := t.(string); ok {
				out = append(out, s)
			}
		}
		return out
	}
	return nil
}
