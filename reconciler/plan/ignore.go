package plan

import (
	"encoding/json"
	"fmt"
	"path"
	"strconv"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// pointer is a JSON pointer (RFC 6901) taken apart. An item of a list is named
// by its index, by "*" for all, or by "key=value".
type pointer []string

func parsePointer(s string) pointer {
	if s == "" || s == "/" {
		return nil
	}
	parts := strings.Split(strings.TrimPrefix(s, "/"), "/")
	for i, p := range parts {
		parts[i] = strings.ReplaceAll(strings.ReplaceAll(p, "~1", "/"), "~0", "~")
	}
	return parts
}

// rulesFor are the pointers that hold for an object. One without parts means
// the whole object.
func rulesFor(rules []v1alpha1.IgnoreRule, ref render.Ref) []pointer {
	var out []pointer
	for _, r := range rules {
		if !glob(r.Kind, ref.Resource.Kind) || !glob(r.Namespace, ref.Key.Namespace) || !glob(r.Name, ref.Key.Name) {
			continue
		}
		if len(r.Fields) == 0 {
			out = append(out, nil)
		}
		for _, f := range r.Fields {
			out = append(out, parsePointer(f))
		}
	}
	return out
}

func glob(pattern, s string) bool {
	if pattern == "" {
		return true
	}
	ok, err := path.Match(pattern, s)
	return err == nil && ok
}

// ignore leaves out the changes that rules name: such a field is set when the
// object is made, and never again. In what is applied because of other changes
// it has its live value while Git still owns it, and is missing once somebody
// else has changed it, so that it stays theirs.
func ignore(rules []pointer, d *Desired, c comparison, live schema.Object) (comparison, error) {
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
	if len(out) == 0 || len(left) == 0 {
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
	c.fields, err = json.Marshal(o)
	return c, err
}

// ignored is a field that differs and is left alone.
type ignored struct {
	pointer pointer
	owned   bool // by Git
}

func objectOf(data []byte) (o map[string]any, err error) {
	return o, utiljson.Unmarshal(data, &o)
}

func matching(rules []pointer, p fieldpath.Path) (pointer, bool) {
	for _, r := range rules {
		if r.covers(p) {
			return r, true
		}
	}
	return nil, false
}

// covers says whether a path is what the pointer names, or below it.
func (r pointer) covers(p fieldpath.Path) bool {
	if len(r) > len(p) {
		return false
	}
	for i, token := range r {
		e := p[i]
		switch {
		case token == "*":
		case e.FieldName != nil:
			if *e.FieldName != token {
				return false
			}
		case e.Index != nil:
			if strconv.Itoa(*e.Index) != token {
				return false
			}
		case e.Key != nil:
			key, val, _ := strings.Cut(token, "=")
			if !hasField(*e.Key, key, val) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// settle gives what a pointer names its live value, or takes it out where it
// is not Git's, or not live.
func settle(v, live any, p pointer, owned bool) {
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

func hasField(key value.FieldList, name, val string) bool {
	for _, f := range key {
		if f.Name == name && fmt.Sprint(f.Value.Unstructured()) == val {
			return true
		}
	}
	return false
}
