package health

import (
	_ "embed"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync/atomic"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/token"

	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

//go:embed schema.cue
var schemaCUE string

// maxRules bounds the rules of one commit.
const maxRules = 500

// Rules are the health rules of one tree. They never change and may be used by
// several goroutines. nil are no rules: the built-in judgement.
type Rules struct {
	hash  string
	rules []rule

	// CUE values are evaluated by one goroutine at a time: the one that has put
	// something into turn.
	ctx  *cue.Context
	turn chan struct{}
	slow atomic.Pointer[rule] // took too long: its turn never ends, and stop is closed
	stop chan struct{}
}

// rule is one rule, read.
type rule struct {
	name   string
	match  selector
	except []selector
	value  cue.Value
	asks   bool // speaks of the object
	pos    token.Position
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
	r := &Rules{hash: files.Hash, ctx: cuecontext.New(), turn: make(chan struct{}, 1), stop: make(chan struct{})}
	schema := r.ctx.CompileString(schemaCUE, cue.Filename("schema.cue")).LookupPath(cue.ParsePath("#Rule"))
	for _, inst := range packages {
		dir := strings.TrimPrefix(inst.Dir, "/")
		v := r.ctx.BuildInstance(inst)
		rules := v.LookupPath(cue.ParsePath("rules"))
		found := r.read(dir, rules, schema)
		if err := v.Err(); err != nil && len(found) == 0 {
			found = render.CUEFindings(dir, err)
		}
		if !rules.Exists() && len(found) == 0 {
			found = []v1alpha1.Finding{{File: place(dir, v).Filename, Line: 1, Column: 1, Rule: "HealthRule",
				Message: fmt.Sprintf("the package has no field rules, and CUE files in the folder %s are health rules", dir),
				Hint:    "write rules, or move manifests to another folder"}}
		}
		findings = append(findings, found...)
	}
	if len(r.rules) > maxRules {
		findings = append(findings, v1alpha1.Finding{File: render.HealthFolder, Rule: "TooLarge",
			Message: fmt.Sprintf("there are %d health rules, %d are allowed", len(r.rules), maxRules), Hint: "let one rule mean several kinds"})
		r.rules = r.rules[:maxRules]
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
func (r *Rules) read(dir string, rules, schema cue.Value) []v1alpha1.Finding {
	it, err := rules.Fields()
	if err != nil {
		return nil // there are none, or the package says why
	}
	var findings []v1alpha1.Finding
	for it.Next() {
		one := rule{name: it.Selector().Unquoted(), pos: place(dir, it.Value())}
		if err := one.read(it.Value(), schema); err != nil {
			findings = append(findings, one.findings(dir, err)...)
			continue
		}
		r.rules = append(r.rules, one)
	}
	return findings
}

func (u *rule) findings(dir string, err error) []v1alpha1.Finding {
	out := render.CUEFindings(dir, err)
	for i := range out {
		f := &out[i]
		f.Object, f.Rule, f.Message = "", "HealthRule", fmt.Sprintf("health rule %s: %s", u.name, f.Message)
		if f.Line == 0 {
			f.File, f.Line, f.Column = u.pos.Filename, u.pos.Line, u.pos.Column
		}
	}
	return out
}

// read decodes what does not depend on an object, and holds the rest against
// the schema.
func (u *rule) read(own, schema cue.Value) error {
	u.asks = own.LookupPath(cue.ParsePath("object")).Exists()
	v := own.Unify(schema)
	var head struct {
		Match struct {
			APIVersion, Kind, Namespace, Name any
			Labels                            map[string]string
		}
		Except []struct{ Kind, Namespace, Name any }
	}
	for name, into := range map[string]any{"match": &head.Match, "except": &head.Except} {
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
	if !own.LookupPath(cue.ParsePath("healthy")).Exists() {
		return errors.New("healthy is missing: say what the object looks like when all is well")
	}
	u.match = selector{texts(head.Match.APIVersion), texts(head.Match.Kind), texts(head.Match.Namespace), texts(head.Match.Name), head.Match.Labels}
	for _, e := range head.Except {
		u.except = append(u.except, selector{kinds: texts(e.Kind), namespaces: texts(e.Namespace), names: texts(e.Name)})
	}
	u.value = v
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

// place is where a rule is written in the files of a folder.
func place(dir string, v cue.Value) token.Position {
	at := []token.Pos{v.Pos()}
	if _, parts := v.Expr(); len(parts) > 0 {
		for _, p := range parts {
			at = append(at, p.Pos())
		}
	}
	if it, err := v.Fields(); err == nil {
		for it.Next() {
			at = append(at, it.Value().Pos())
		}
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

// selector says which objects are meant; what is empty does not matter.
type selector struct {
	versions, kinds, namespaces, names []string
	labels                             map[string]string
}

// means says whether a rule is about an object.
func (u *rule) means(o schema.Object, apiVersion, kind string) bool {
	if !u.match.means(o, apiVersion, kind) {
		return false
	}
	for i := range u.except {
		if u.except[i].means(o, apiVersion, kind) {
			return false
		}
	}
	return true
}

func (s *selector) means(o schema.Object, apiVersion, kind string) bool {
	if !one(s.versions, apiVersion) || !one(s.kinds, kind) || !one(s.namespaces, o.GetNamespace()) || !one(s.names, o.GetName()) {
		return false
	}
	for key, want := range s.labels {
		if have, ok := o.GetLabels()[key]; !ok || !one([]string{want}, have) {
			return false
		}
	}
	return true
}

// one says whether a text is one of some patterns; no patterns: any.
func one(patterns []string, text string) bool {
	for _, p := range patterns {
		if ok, err := path.Match(p, text); ok && err == nil || p == text {
			return true
		}
	}
	return len(patterns) == 0
}
