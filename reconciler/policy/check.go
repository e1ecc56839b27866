package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/writ-os/writ/reconciler/cuerule"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/sandbox"
	"github.com/writ-os/writ/schema/v1alpha1"
)

const (
	// checkTimeout bounds what the rules make of some units, and perObject what
	// each object adds to that.
	checkTimeout = 10 * time.Second
	perObject    = 5 * time.Millisecond
	// maxDeaths is how many units may each cost a child before the others are
	// refused without having been looked at.
	maxDeaths = 3
)

// Result is what became of some manifests.
type Result struct {
	Refused []v1alpha1.Finding // keep the commit out
	Warned  []v1alpha1.Finding // are told
}

// Open is what of some manifests only CUE can answer, as it is sent to a child.
// nil: nothing.
type Open struct {
	Manifests render.Packed
	Asks      []Ask
}

// Ask is whether an object keeps a rule, by their numbers.
type Ask struct{ Object, Rule int }

// Open answers what can be answered without CUE, and returns the rest.
func (s *Set) Open(manifests []render.Manifest) *Open {
	if s == nil {
		return nil
	}
	var asked []*render.Manifest
	out := &Open{}
	budget := stepsPerObject * (len(manifests) + 100)
	for i := range manifests {
		o := s.object(&manifests[i], &budget)
		before := len(out.Asks)
		for j := range s.rules {
			if r := &s.rules[j]; r.means(o) && !o.satisfies(r) {
				out.Asks = append(out.Asks, Ask{len(asked), j})
			}
		}
		if len(out.Asks) > before {
			asked = append(asked, &manifests[i])
		}
	}
	if len(asked) == 0 {
		return nil
	}
	out.Manifests = render.Pack(asked)
	return out
}

// Check has a child answer what is open of some units, in one turn; a nil Open
// has nothing that is. The error is that of ctx, or of a child that cannot be
// started. A unit that no child has survived has a finding that says so.
func (s *Set) Check(ctx context.Context, units []*Open) ([]Result, error) {
	out := make([]Result, len(units)) // of the nil set too
	var left []int
	for i, u := range units {
		if u != nil {
			left = append(left, i)
		}
	}
	for deaths := 0; len(left) > 0; {
		q, n := checkQuestion{Sources: s.sources}, 0
		for _, i := range left {
			q.Units, n = append(q.Units, units[i]), n+len(units[i].Manifests.Heads)
		}
		got, err := sandbox.Call(ctx, s.sandbox, checkThere, q, s.limit+time.Duration(n)*perObject)
		var death *sandbox.Death
		switch {
		case err == nil && len(got) == len(left):
			for k, i := range left {
				out[i] = got[k]
			}
			return out, ctx.Err()
		case err == nil:
			death = &sandbox.Death{Cause: sandbox.Garbage, Why: "the evaluator of the policies has left out files", At: -1}
		case !errors.As(err, &death):
			return nil, err
		}
		bad, ask, known := find(units, left, death.At)
		if deaths++; known && deaths < maxDeaths && len(left) > 1 {
			out[left[bad]] = s.died(units[left[bad]], ask, death)
			left = append(left[:bad:bad], left[bad+1:]...)
			continue
		}
		for k, i := range left {
			if k == bad {
				out[i] = s.died(units[i], ask, death)
			} else {
				out[i] = s.died(units[i], -1, death)
			}
		}
		return out, ctx.Err()
	}
	return out, ctx.Err()
}

// find finds the ask of a number, counted over all units; false: there is none.
func find(units []*Open, left []int, at int) (unit, ask int, known bool) {
	if at < 0 {
		return -1, -1, false
	}
	for k, i := range left {
		if at < len(units[i].Asks) {
			return k, at, true
		}
		at -= len(units[i].Asks)
	}
	return -1, -1, false
}

// died is what a unit has become that no child has survived, at the object and
// the rule that it was about where that is known.
func (s *Set) died(u *Open, ask int, death *sandbox.Death) Result {
	what, h := "policies", &u.Manifests.Heads[0]
	if ask >= 0 {
		a := u.Asks[ask]
		r := &s.rules[a.Rule]
		h = &u.Manifests.Heads[a.Object]
		what = fmt.Sprintf("policy %s (%s:%d)", r.Name, r.Pos.Filename, r.Pos.Line)
	}
	f := render.Died(what, death)
	f.File, f.Line, f.Column, f.Hint = h.File, h.Line, h.Column, "make the rules simpler"
	f.Object = render.ObjectName(h.GVK.Kind, h.Key)
	return Result{Refused: []v1alpha1.Finding{f}}
}

// object is one manifest being checked in the server.
type object struct {
	m        *render.Manifest
	seen     cuerule.Object // what rules choose it by
	plain    any            // the JSON, decoded
	labelled map[string]string
	steps    *int
}

func (s *Set) object(m *render.Manifest, steps *int) *object {
	o := &object{m: m, steps: steps}
	o.seen = cuerule.Object{APIVersion: m.Resource.APIVersion(), Kind: m.Resource.Kind, Namespace: m.Key.Namespace, Name: m.Key.Name, Labels: o.labels}
	return o
}

// satisfies says that an object certainly keeps a rule.
func (o *object) satisfies(r *rule) bool {
	if r.Quick == nil {
		return false
	}
	if o.plain == nil {
		o.plain = o.m.Plain()
	}
	v := o.plain
	if r.PodSpec {
		for step := range strings.SplitSeq(podSpecs[o.m.Resource.Kind], ".") {
			m, _ := v.(map[string]any)
			if v = m[step]; v == nil {
				return false
			}
		}
	}
	return r.Quick.satisfied(v, o.steps)
}
