package policy

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/cuecontext"
	cueerrors "cuelang.org/go/cue/errors"
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
	ctx   *cue.Context
	rules []rule
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
	s := &Set{hash: hash, ctx: cuecontext.New()}
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

// Result is what became of some manifests.
type Result struct {
	Refused []v1alpha1.Finding // keep the commit out
	Warned  []v1alpha1.Finding // are told
}

// Check holds manifests against the rules. The error is that of ctx.
func (s *Set) Check(ctx context.Context, manifests []render.Manifest) (Result, error) {
	if s == nil || len(s.rules) == 0 || !s.any(manifests) {
		return Result{}, nil
	}
	bounded, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	done := make(chan Result, 1)
	go func() { done <- s.check(bounded, manifests) }()
	select {
	case r := <-done:
		return r, ctx.Err()
	case <-bounded.Done():
		if !errors.Is(bounded.Err(), context.DeadlineExceeded) || ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
		h := &manifests[0].Head
		return Result{Refused: []v1alpha1.Finding{{File: h.File, Line: h.Line, Column: h.Column, Rule: "TooSlow",
			Message: fmt.Sprintf("the policies are not evaluated after %s", checkTimeout), Hint: "make the rules simpler"}}}, nil
	}
}

func (s *Set) any(manifests []render.Manifest) bool {
	for i := range manifests {
		for j := range s.rules {
			if s.rules[j].means(&manifests[i]) {
				return true
			}
		}
	}
	return false
}

func (s *Set) check(ctx context.Context, manifests []render.Manifest) (out Result) {
	defer func() {
		if p := recover(); p != nil {
			h := &manifests[0].Head
			out = Result{Refused: []v1alpha1.Finding{{File: h.File, Line: h.Line, Column: h.Column, Rule: "Policy", Message: fmt.Sprintf("the evaluation of the policies broke down: %v", p)}}}
		}
	}()
	for i := range manifests {
		m := &manifests[i]
		o := object{set: s, m: m}
		for j := range s.rules {
			r := &s.rules[j]
			if ctx.Err() != nil {
				return out
			}
			if !r.means(m) {
				continue
			}
			found := o.check(r)
			if r.warn {
				out.Warned = append(out.Warned, found...)
			} else {
				out.Refused = append(out.Refused, found...)
			}
		}
	}
	return out
}

// object is one manifest being checked; its values are made when asked for.
type object struct {
	set       *Set
	m         *render.Manifest
	expr      ast.Expr
	whole     *cue.Value
	pods      *cue.Value
	podsField string
	plain     any // the JSON, decoded
}

// satisfies says that an object certainly keeps a rule.
func (o *object) satisfies(r *rule) bool {
	if r.quick == nil {
		return false
	}
	if o.plain == nil {
		d := json.NewDecoder(bytes.NewReader(o.m.JSON))
		d.UseNumber()
		if d.Decode(&o.plain) != nil {
			return false
		}
	}
	v := o.plain
	if r.podSpec {
		for step := range strings.SplitSeq(podSpecs[o.m.Resource.Kind], ".") {
			m, _ := v.(map[string]any)
			if v = m[step]; v == nil {
				return false
			}
		}
	}
	return r.quick(v)
}

func (o *object) check(r *rule) []v1alpha1.Finding {
	if o.satisfies(r) {
		return nil
	}
	if o.expr == nil {
		o.expr = o.m.Expr()
	}
	v, prefix := o.value(r.podSpec)
	err := r.require.Unify(v).Validate(cue.Concrete(true))
	if err == nil {
		return nil
	}
	var out []v1alpha1.Finding
	for _, e := range cueerrors.Errors(err) {
		f := o.finding(r, e, prefix)
		same := func(g v1alpha1.Finding) bool { return g.File == f.File && g.Line == f.Line && g.Field == f.Field }
		if !slices.ContainsFunc(out, same) {
			out = append(out, f)
		}
	}
	return out
}

// value is the object, or the specification of its pods, and where that is.
func (o *object) value(podSpec bool) (cue.Value, string) {
	if !podSpec {
		if o.whole == nil {
			v := o.set.ctx.BuildExpr(o.expr)
			o.whole = &v
		}
		return *o.whole, ""
	}
	if o.pods == nil {
		o.podsField = podSpecs[o.m.Resource.Kind]
		v := o.set.ctx.BuildExpr(render.Descend(o.expr, o.podsField))
		o.pods = &v
	}
	return *o.pods, o.podsField
}

// finding says that an object breaks a rule, at the field that does.
func (o *object) finding(r *rule, e cueerrors.Error, prefix string) v1alpha1.Finding {
	f := v1alpha1.Finding{File: o.m.File, Line: o.m.Line, Column: o.m.Column, Object: o.m.Object(), Rule: r.name, Message: r.message}
	f.Field = fieldPath(prefix, e.Path(), r.name)
	at := render.Locate(o.expr, f.Field)
	if at.IsValid() {
		f.File, f.Line, f.Column = at.Filename, at.Line, at.Column
	}
	why, args := e.Msg()
	f.Hint = fmt.Sprintf("%s:%d: %s", r.pos.Filename, r.pos.Line, strings.Join(strings.Fields(fmt.Sprintf(why, args...)), " "))
	if r.hint != "" {
		f.Hint = r.hint + " (" + f.Hint + ")"
	}
	return f
}

// fieldPath writes the path of an error as that of a field of the object.
func fieldPath(prefix string, steps []string, name string) string {
	var b strings.Builder
	b.WriteString(prefix)
	for i, step := range steps {
		switch {
		case i < 3 && (step == "rules" || strings.Trim(step, `"`) == name || step == "require"):
		case step != "" && strings.Trim(step, "0123456789") == "":
			b.WriteString("[" + step + "]")
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(strings.Trim(step, `"`))
		}
	}
	return b.String()
}
