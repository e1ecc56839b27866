package health

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"time"

	"cuelang.org/go/cue"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/writ-os/writ/reconciler/cuerule"
	"github.com/writ-os/writ/schema"
)

// judgeTimeout bounds what the rules make of one object. Rules that people
// write take microseconds. CUE cannot be interrupted: one that takes longer is
// left behind, and none is evaluated again before the commit changes.
const judgeTimeout = time.Second

// Of returns the health of an object; nil is Missing.
func (r *Rules) Of(o schema.Object) Health { return r.In(o, nil) }

// In is Of, and looks at other objects as the package's In does.
func (r *Rules) In(o schema.Object, live Live) Health {
	var mean []*rule
	if r != nil && o != nil && o.GetDeletionTimestamp() == nil {
		mean = r.mean(o)
	}
	if len(mean) == 0 {
		return In(o, live)
	}
	if u := r.slow.Load(); u != nil {
		return tooSlow(u)
	}
	h, err := cuerule.Take(context.Background(), &r.turns, func(context.Context) Health { return r.judge(o, mean) })
	if err != nil {
		r.slow.CompareAndSwap(nil, cmp.Or(r.at.Load(), mean[0]))
		return tooSlow(r.slow.Load())
	}
	return h
}

func tooSlow(u *rule) Health {
	return degraded("the health rule %s (%s:%d) is not evaluated after %s: make it simpler", u.Name, u.Pos.Filename, u.Pos.Line, judgeTimeout)
}

// mean are the rules that mean an object.
func (r *Rules) mean(o schema.Object) []*rule {
	apiVersion, kind := o.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
	if res := schema.ResourceOf(o); kind == "" && res != nil {
		apiVersion, kind = res.APIVersion(), res.Kind
	}
	seen := &cuerule.Object{APIVersion: apiVersion, Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), Labels: o.GetLabels}
	var out []*rule
	for i := range r.rules {
		if r.rules[i].Means(seen) {
			out = append(out, &r.rules[i])
		}
	}
	return out
}

// judge is the worst that the rules say.
func (r *Rules) judge(o schema.Object, mean []*rule) (worst Health) {
	defer func() {
		if p := recover(); p != nil {
			worst = degraded("the health rules cannot be evaluated: %v", p)
		}
	}()
	fields, err := view(o)
	if err != nil {
		return degraded("the health rules cannot be evaluated: %v", err)
	}
	v := r.ctx.Encode(fields)
	worst = healthy()
	for _, u := range mean {
		r.at.Store(u)
		if h := u.judge(v); worse(h.Status, worst.Status) {
			worst = h
		}
	}
	return worst
}

func worse(a, b Status) bool {
	rank := map[Status]int{Healthy: 0, Progressing: 1, Degraded: 2}
	return rank[a] > rank[b]
}

// judge holds one object against one rule.
func (u *rule) judge(object cue.Value) Health {
	v := u.value
	if u.asks {
		v = v.FillPath(cue.ParsePath("object"), object)
	}
	if holds(v.LookupPath(cue.ParsePath("degraded")), object) {
		return Health{Status: Degraded, Message: u.say(v)}
	}
	if holds(v.LookupPath(cue.ParsePath("healthy")), object) {
		return healthy()
	}
	return Health{Status: Progressing, Message: u.say(v)}
}

// say is the rule's message. One that speaks of a field that is not there yet
// is not said.
func (u *rule) say(v cue.Value) string {
	if s, err := v.LookupPath(cue.ParsePath("message")).String(); err == nil && s != "" {
		return s
	}
	return fmt.Sprintf("is not healthy by the rule %s (%s:%d)", u.Name, u.Pos.Filename, u.Pos.Line)
}

// holds says whether the object has all of a pattern: the two fit, and the
// pattern adds nothing. A pattern may also be true or false.
func holds(pattern, object cue.Value) bool {
	if !pattern.Exists() {
		return false
	}
	if b, err := pattern.Bool(); err == nil {
		return b
	}
	both := pattern.Unify(object)
	return both.Validate(cue.Concrete(true)) == nil && has(object, both)
}

// has says whether a value has every field of another.
func has(v, fields cue.Value) bool {
	switch fields.IncompleteKind() {
	case cue.StructKind:
		it, err := fields.Fields()
		if err != nil {
			return false
		}
		for it.Next() {
			if mine := v.LookupPath(cue.MakePath(it.Selector())); !mine.Exists() || !has(mine, it.Value()) {
				return false
			}
		}
	case cue.ListKind:
		it, err := fields.List()
		if err != nil {
			return false
		}
		mine, err := v.List()
		if err != nil {
			return false
		}
		for it.Next() {
			if !mine.Next() || !has(mine.Value(), it.Value()) {
				return false
			}
		}
	}
	return true
}

// view is what rules see of an object: its fields, and its conditions by type.
// What a Secret holds they do not see.
func view(o schema.Object) (map[string]any, error) {
	var fields map[string]any
	if u, ok := o.(*unstructured.Unstructured); ok {
		fields = maps.Clone(u.Object)
	} else {
		var err error
		if fields, err = runtime.DefaultUnstructuredConverter.ToUnstructured(o); err != nil {
			return nil, err
		}
		if r := schema.ResourceOf(o); r != nil {
			fields["apiVersion"], fields["kind"] = r.APIVersion(), r.Kind
		}
	}
	if fields["kind"] == "Secret" && fields["apiVersion"] == "v1" {
		delete(fields, "data")
		delete(fields, "stringData")
	}
	if meta, ok := fields["metadata"].(map[string]any); ok {
		meta = maps.Clone(meta)
		delete(meta, "managedFields")
		fields["metadata"] = meta
	}
	status, _ := fields["status"].(map[string]any)
	list, _ := status["conditions"].([]any)
	byType := map[string]any{}
	for _, item := range list {
		if c, ok := item.(map[string]any); ok {
			if kind, ok := c["type"].(string); ok {
				byType[kind] = c
			}
		}
	}
	if _, taken := fields["conditions"]; !taken {
		fields["conditions"] = byType
	}
	return fields, nil
}
