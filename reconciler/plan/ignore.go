package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/merge"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// rulesFor are the pointers that hold for an object. One without parts means
// the whole object.
func rulesFor(rules []v1alpha1.IgnoreRule, ref render.Ref) []merge.Pointer {
	return merge.Ignored(rules, ref.Resource.Kind, ref.Key)
}

// ignore leaves out the changes that rules name: such a field is set when the
// object is made, and never again. In what is applied because of other changes
// it has its live value while Git still owns it, and is missing once somebody
// else has changed it, so that it stays theirs.
func ignore(rules []merge.Pointer, d *Desired, c comparison, live schema.Object) (comparison, error) {
	var left []change
	var out []ignored
	for _, ch := range c.changes {
		if p, ok := matching(rules, ch.path); ok {
			out = append(out, ignored{p, c.set.Has(ch.path)})
		} else {
			left = append(left, ch)
		}
	}
	c.changes = left
	if len(out) == 0 || len(left) == 0 && c.owned {
		return c, nil
	}
	o, err := objectOf(d.Fields)
	if err != nil {
		return c, err
	}
	data, err := json.Marshal(live)
	if err != nil {
		return c, err
	}
	have, err := objectOf(data)
	if err != nil {
		return c, err
	}
	for _, i := range out {
		settle(o, have, i.pointer, i.owned)
	}
	// Where others have changed all that Git declares, nothing is left to own.
	c.owned = c.owned || bare(o) || slices.ContainsFunc(out, func(i ignored) bool { return len(i.pointer) == 0 })
	c.fields, err = json.Marshal(o)
	return c, err
}

// bare says whether a manifest says no more than which object is meant.
func bare(o map[string]any) bool {
	for k, v := range o {
		in, isMap := v.(map[string]any)
		switch {
		case k == "apiVersion", k == "kind", k == "name", k == "namespace":
		case !isMap || !bare(in):
			return false
		}
	}
	return true
}

// ignored is a field that differs and is left alone.
type ignored struct {
	pointer merge.Pointer
	owned   bool // by Git
}

func objectOf(data []byte) (o map[string]any, err error) {
	return o, utiljson.Unmarshal(data, &o)
}

func matching(rules []merge.Pointer, p fieldpath.Path) (merge.Pointer, bool) {
	for _, r := range rules {
		if r.Covers(p) {
			return r, true
		}
	}
	return nil, false
}

// settle gives what a pointer names its live value, or takes it out where it
// is not Git's, or not live.
func settle(v, live any, p merge.Pointer, owned bool) {
	if len(p) == 0 {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		have, _ := live.(map[string]any)
		for k := range v {
			if p[0] != "*" && p[0] != k {
				continue
			}
			value, exists := have[k]
			switch {
			case len(p) > 1:
				settle(v[k], value, p[1:], owned)
			case owned && exists:
				v[k] = value
			default:
				delete(v, k)
			}
		}
	case []any:
		if len(p) == 1 {
			return // an item of a list has no owner of its own without its key
		}
		have, _ := live.([]any)
		for i, item := range v {
			if p[0] == "*" || p[0] == strconv.Itoa(i) || named(item, p[0]) {
				settle(item, counterpart(have, item, i), p[1:], owned)
			}
		}
	}
}

// counterpart is the live item of a list: that of the same name, or place.
func counterpart(live []any, item any, i int) any {
	if m, ok := item.(map[string]any); ok && m["name"] != nil {
		for _, l := range live {
			if lm, ok := l.(map[string]any); ok && lm["name"] == m["name"] {
				return l
			}
		}
		return nil
	}
	if i < len(live) {
		return live[i]
	}
	return nil
}

func named(item any, token string) bool {
	key, val, ok := strings.Cut(token, "=")
	m, isMap := item.(map[string]any)
	return ok && isMap && fmt.Sprint(m[key]) == val
}
