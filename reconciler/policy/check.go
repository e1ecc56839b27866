package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	cueerrors "cuelang.org/go/cue/errors"

	"github.com/writ-os/writ/reconciler/cuerule"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Result is what became of some manifests.
type Result struct {
	Refused []v1alpha1.Finding // keep the commit out
	Warned  []v1alpha1.Finding // are told
}

// Check holds manifests against the rules. The error is that of ctx.
func (s *Set) Check(ctx context.Context, manifests []render.Manifest) (Result, error) {
	open := s.undecided(manifests)
	if len(open) == 0 {
		return Result{}, ctx.Err()
	}
	r, err := cuerule.Take(ctx, &s.turns, func(ctx context.Context) Result { return check(ctx, open) })
	if errors.Is(err, cuerule.ErrLate) {
		return tooSlow(&open[0]), nil
	}
	return r, err
}

func tooSlow(q *question) Result {
	h := &q.object.m.Head
	return Result{Refused: []v1alpha1.Finding{{File: h.File, Line: h.Line, Column: h.Column, Rule: "TooSlow",
		Message: fmt.Sprintf("the policies are not evaluated after %s", q.object.set.turns.Limit), Hint: "make the rules simpler"}}}
}

// question is whether an object keeps a rule, for CUE to answer.
type question struct {
	object *object
	rule   *rule
}

// undecided is what cannot be answered without CUE.
func (s *Set) undecided(manifests []render.Manifest) []question {
	if s == nil {
		return nil
	}
	var out []question
	for i := range manifests {
		o := s.object(&manifests[i])
		for j := range s.rules {
			if r := &s.rules[j]; r.means(o) && !o.satisfies(r) {
				out = append(out, question{o, r})
			}
		}
	}
	return out
}

func check(ctx context.Context, open []question) (out Result) {
	defer func() {
		if p := recover(); p != nil {
			h := &open[0].object.m.Head
			out = Result{Refused: []v1alpha1.Finding{{File: h.File, Line: h.Line, Column: h.Column, Rule: "Policy", Message: fmt.Sprintf("the evaluation of the policies broke down: %v", p)}}}
		}
	}()
	for _, q := range open {
		if ctx.Err() != nil {
			return out
		}
		found := q.object.check(q.rule)
		if q.rule.warn {
			out.Warned = append(out.Warned, found...)
		} else {
			out.Refused = append(out.Refused, found...)
		}
	}
	return out
}

// object is one manifest being checked; its values are made when asked for.
type object struct {
	set       *Set
	m         *render.Manifest
	seen      cuerule.Object // what rules choose it by
	expr      ast.Expr
	whole     *cue.Value
	pods      *cue.Value
	podsField string
	plain     any               // the JSON, decoded
	labelled  map[string]string // the labels, decoded
}

func (s *Set) object(m *render.Manifest) *object {
	o := &object{set: s, m: m}
	o.seen = cuerule.Object{APIVersion: m.Resource.APIVersion(), Kind: m.Resource.Kind, Namespace: m.Key.Namespace, Name: m.Key.Name, Labels: o.labels}
	return o
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
	if o.expr == nil {
		o.expr = o.m.Expr()
	}
	v, prefix := o.value(r.podSpec)
	whole := r.require.Unify(v)
	err := whole.Validate(cue.Concrete(true))
	if err == nil {
		return nil
	}
	var out []v1alpha1.Finding
	for _, b := range breaches(whole, render.Descend(o.expr, prefix), cueerrors.Errors(err), r.Name) {
		out = append(out, o.finding(r, b, prefix))
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

// finding says that an object breaks a rule: at the value that does, at the
// field that must not be, or at what is nearest to one that is missing.
func (o *object) finding(r *rule, b breach, prefix string) v1alpha1.Finding {
	f := v1alpha1.Finding{File: o.m.File, Line: o.m.Line, Column: o.m.Column, Object: o.m.Object(), Rule: r.Name, Message: r.message}
	f.Field = join(prefix, b.steps)
	at, text := render.LocateValue(o.expr, f.Field)
	if b.forbidden {
		at = render.Locate(o.expr, f.Field)
	}
	if at.IsValid() {
		f.File, f.Line, f.Column = at.Filename, at.Line, at.Column
	}
	f.Hint = fmt.Sprintf("%s:%d", r.Pos.Filename, r.Pos.Line)
	// What a Secret or an encrypted file holds is nobody's to read in an answer
	// to a push.
	if o.m.Resource.Kind != "Secret" && !o.m.Sealed {
		if text != "" && !b.forbidden {
			f.Message += ", is " + cut(text, maxOffending)
		}
		f.Hint += ": " + strings.Join(b.why, "; ")
	}
	if r.hint != "" {
		f.Hint = r.hint + " (" + f.Hint + ")"
	}
	return f
}

// maxOffending bounds what is told of a value, in bytes.
const maxOffending = 80

// cut shortens a text to whole characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}
