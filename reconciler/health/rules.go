package health

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/writ-os/writ/reconciler/cuerule"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/sandbox"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

const (
	// loadTimeout bounds reading the rules of one tree.
	loadTimeout = 10 * time.Second
	// judgeTimeout bounds what the rules make of some objects, and perObject what
	// each adds to that. Rules that people write take microseconds.
	judgeTimeout = 5 * time.Second
	perObject    = 5 * time.Millisecond
	// together is how many objects are judged in one turn.
	together = 500
)

// Rules are the health rules of one tree, as far as the server knows them. They
// never change and may be used by several goroutines. nil are no rules: the
// built-in judgement.
type Rules struct {
	sources render.RuleSources
	rules   []cuerule.Rule
	sandbox *sandbox.Sandbox

	turn sync.Mutex // of asking: who waits need not ask once it is broken
	// broken is what is said of all objects that rules mean after one has cost a
	// child: none is evaluated again before the commit changes.
	broken atomic.Pointer[Health]
}

// Load reads the health rules of a tree, in a child, and what is wrong with
// them. The error is that of a tree that cannot be read, or of a child that
// cannot be started.
func Load(ctx context.Context, t render.Tree, s *sandbox.Sandbox) (*Rules, []v1alpha1.Finding, error) {
	return Reload(ctx, t, s, nil, nil)
}

// Reload is Load where the rules may be those of an earlier tree, with what was
// wrong with them.
func Reload(ctx context.Context, t render.Tree, s *sandbox.Sandbox, before *Rules, wrong []v1alpha1.Finding) (*Rules, []v1alpha1.Finding, error) {
	files, err := render.HealthRules(t)
	if err != nil || files.Hash == "" {
		return nil, files.Findings, err
	}
	if before.Hash() == files.Hash {
		return before, wrong, nil
	}
	r := &Rules{sandbox: s}
	if r.sources, err = files.Read(); err != nil {
		return nil, nil, err
	}
	got, err := sandbox.Call(ctx, s, loadThere, r.sources, loadTimeout)
	var death *sandbox.Death
	switch {
	case errors.As(err, &death):
		f := render.Died("folder of health rules", err)
		f.File = path.Clean(r.sources.Dirs[0])
		got = loaded{Findings: []v1alpha1.Finding{f}}
	case err != nil:
		return nil, nil, fmt.Errorf("load health rules: %w", err)
	}
	findings := append(files.Findings, got.Findings...)
	if len(got.Rules) > cuerule.Max {
		findings = append(findings, v1alpha1.Finding{File: render.HealthFolder, Rule: "TooLarge",
			Message: fmt.Sprintf("there are %d health rules, %d are allowed", len(got.Rules), cuerule.Max), Hint: "let one rule mean several kinds"})
		got.Rules = got.Rules[:cuerule.Max]
	}
	r.rules = got.Rules
	return r, findings, nil
}

// Hash changes when a rule does; "" when there is none.
func (r *Rules) Hash() string {
	if r == nil {
		return ""
	}
	return r.sources.Hash
}

// Of returns the health of an object; nil is Missing.
func (r *Rules) Of(o schema.Object) Health { return r.In(o, nil) }

// In is Of, and looks at other objects as the package's In does.
func (r *Rules) In(o schema.Object, live Live) Health { return r.All([]schema.Object{o}, live)[0] }

// All is In of many objects: a child is asked about all of them in one turn.
func (r *Rules) All(objects []schema.Object, live Live) []Health {
	out := make([]Health, len(objects))
	var q judgeQuestion
	var of []int
	ask := func() {
		for i, h := range r.ask(q) {
			out[of[i]] = h
		}
		q, of = judgeQuestion{}, nil
	}
	for i, o := range objects {
		mean := r.mean(o)
		if len(mean) == 0 {
			out[i] = In(o, live)
			continue
		}
		fields, err := view(o)
		var data []byte
		if err == nil {
			data, err = json.Marshal(fields)
		}
		if err != nil {
			out[i] = degraded("the health rules cannot be evaluated: %v", err)
			continue
		}
		q.Objects, of = append(q.Objects, judgeObject{data, mean}), append(of, i)
		if len(of) == together {
			ask()
		}
	}
	if len(of) > 0 {
		ask()
	}
	return out
}

// ask has a child judge objects.
func (r *Rules) ask(q judgeQuestion) []Health {
	same := func(h Health) []Health {
		out := make([]Health, len(q.Objects))
		for i := range out {
			out[i] = h
		}
		return out
	}
	r.turn.Lock()
	defer r.turn.Unlock()
	if h := r.broken.Load(); h != nil {
		return same(*h)
	}
	q.Sources = r.sources
	got, err := sandbox.Call(context.Background(), r.sandbox, judgeThere, q, judgeTimeout+time.Duration(len(q.Objects))*perObject)
	var death *sandbox.Death
	if err == nil && (len(got) != len(q.Objects) || !sound(got)) {
		err = &sandbox.Death{Cause: sandbox.Garbage, Why: "the evaluator has left out objects", At: -1}
	}
	switch {
	case err == nil:
		return got
	case errors.As(err, &death):
		r.broken.CompareAndSwap(nil, r.died(q, death))
		return same(*r.broken.Load())
	}
	return same(degraded("the health rules cannot be evaluated: %v", err)) // the next look asks again
}

// sound says whether a child has said of each object what rules can say.
func sound(got []Health) bool {
	for i := range got {
		switch got[i].Status {
		case Healthy, Progressing, Degraded:
		default:
			return false
		}
		got[i].Message = cut(got[i].Message, maxMessage)
	}
	return true
}

// died says which rule has cost a child.
func (r *Rules) died(q judgeQuestion, death *sandbox.Death) *Health {
	what, at := "health rules", death.At
	for _, o := range q.Objects {
		if at >= 0 && at < len(o.Rules) {
			u := &r.rules[o.Rules[at]]
			what = fmt.Sprintf("health rule %s (%s:%d)", u.Name, u.Pos.Filename, u.Pos.Line)
			break
		}
		at -= len(o.Rules)
	}
	h := degraded("%s: make it simpler", render.Died(what, death).Message)
	return &h
}

// mean are the numbers of the rules that mean an object.
func (r *Rules) mean(o schema.Object) []int {
	if r == nil || o == nil || o.GetDeletionTimestamp() != nil {
		return nil
	}
	apiVersion, kind := o.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
	if res := schema.ResourceOf(o); kind == "" && res != nil {
		apiVersion, kind = res.APIVersion(), res.Kind
	}
	seen := &cuerule.Object{APIVersion: apiVersion, Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), Labels: o.GetLabels}
	var out []int
	for i := range r.rules {
		if r.rules[i].Means(seen) {
			out = append(out, i)
		}
	}
	return out
}
