package health

import (
	"fmt"
	"maps"
	"strings"

	"cuelang.org/go/cue"
	cuejson "cuelang.org/go/encoding/json"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/sandbox"
	"github.com/writ-os/writ/schema"
)

// maxMessage bounds what a rule says of an object, in bytes.
const maxMessage = 4 << 10

// judgeQuestion is objects, each with the rules that mean it.
type judgeQuestion struct {
	Sources render.RuleSources
	Objects []judgeObject
}

type judgeObject struct {
	JSON  []byte // of its view
	Rules []int
}

// judgeThere judges objects in a child.
var judgeThere = sandbox.Func[judgeQuestion, []Health]{Name: "health.judge", Max: 2 * together * maxMessage, Do: func(q judgeQuestion, at func(int)) []Health {
	out := make([]Health, len(q.Objects))
	kept.With(q.Sources, load, func(r *compiledRules) {
		n := 0
		for i, o := range q.Objects {
			out[i] = r.judge(o, func() { at(n); n++ })
			out[i].Message = cut(out[i].Message, maxMessage)
		}
	})
	return out
}}

// judge is the worst that the rules say.
func (r *compiledRules) judge(o judgeObject, next func()) (worst Health) {
	defer func() {
		if p := recover(); p != nil {
			worst = degraded("the health rules cannot be evaluated: %v", p)
		}
	}()
	fields, err := cuejson.Extract("object", o.JSON)
	if err != nil {
		return degraded("the health rules cannot be evaluated: %v", err)
	}
	v := r.ctx.BuildExpr(fields)
	worst = healthy()
	for _, i := range o.Rules {
		next()
		if h := r.rules[i].judge(v); worse(h.Status, worst.Status) {
			worst = h
		}
	}
	return worst
}

// cut shortens a text to whole characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
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
