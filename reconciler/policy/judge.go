package policy

import (
	"fmt"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	cueerrors "cuelang.org/go/cue/errors"

	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/sandbox"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// maxChecked bounds what the server is told of some units, in bytes.
const maxChecked = 16 << 20

// checkQuestion is what is open of some units.
type checkQuestion struct {
	Sources render.RuleSources
	Units   []*Open
}

// checkThere answers what is open, in a child: a Result for each unit.
var checkThere = sandbox.Func[checkQuestion, []Result]{Name: "policy.check", Max: maxChecked, Do: func(q checkQuestion, at func(int)) (out []Result) {
	kept.With(q.Sources, load, func(s *compiledSet) { out = s.check(q.Units, at) })
	return out
}}

func (s *compiledSet) check(units []*Open, at func(int)) []Result {
	out := make([]Result, len(units))
	n := 0
	for i, u := range units {
		manifests, err := u.Manifests.Unpack()
		if err != nil {
			panic(err) // of our own packing
		}
		objects := make([]*judged, len(manifests))
		for j := range manifests {
			objects[j] = &judged{set: s, m: &manifests[j]}
		}
		for _, a := range u.Asks {
			at(n)
			n++
			r := &s.rules[a.Rule]
			found := objects[a.Object].check(r)
			if r.warn {
				out[i].Warned = append(out[i].Warned, found...)
			} else {
				out[i].Refused = append(out[i].Refused, found...)
			}
		}
	}
	return out
}

// judged is one object; its values are made when asked for.
type judged struct {
	set       *compiledSet
	m         *render.Manifest
	expr      ast.Expr
	whole     *cue.Value
	pods      *cue.Value
	podsField string
}

func (o *judged) check(r *compiled) []v1alpha1.Finding {
	if o.expr == nil {
		o.expr = o.m.Expr()
	}
	v, prefix := o.value(r.PodSpec)
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
func (o *judged) value(podSpec bool) (cue.Value, string) {
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
func (o *judged) finding(r *compiled, b breach, prefix string) v1alpha1.Finding {
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
