package cuerule

import (
	"path"

	"cuelang.org/go/cue"
)

// Object is what a rule asks of an object to know whether it means it.
type Object struct {
	APIVersion, Kind, Namespace, Name string
	Labels                            func() map[string]string // asked of what has all else
}

// Selector says which objects are meant; what is empty does not matter.
type Selector struct {
	Versions, Kinds, Namespaces, Names []string
	Labels                             map[string]string
}

// Means says whether a rule is about an object.
func (r *Rule) Means(o *Object) bool {
	if !r.Match.means(o) {
		return false
	}
	for i := range r.Except {
		if r.Except[i].means(o) {
			return false
		}
	}
	return true
}

func (s *Selector) means(o *Object) bool {
	if !one(s.Versions, o.APIVersion) || !one(s.Kinds, o.Kind) || !one(s.Namespaces, o.Namespace) || !one(s.Names, o.Name) {
		return false
	}
	if len(s.Labels) == 0 {
		return true
	}
	labels := o.Labels()
	for key, want := range s.Labels {
		if have, ok := labels[key]; !ok || !one([]string{want}, have) {
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

// ReadMatch reads the fields match and except of a rule that has been unified
// with its schema.
func (r *Rule) ReadMatch(v cue.Value) error {
	var match struct {
		APIVersion, Kind, Namespace, Name any
		Labels                            map[string]string
	}
	var except []struct{ Kind, Namespace, Name any }
	if err := Decode(v, "match", &match); err != nil {
		return err
	}
	if err := Decode(v, "except", &except); err != nil {
		return err
	}
	r.Match = Selector{texts(match.APIVersion), texts(match.Kind), texts(match.Namespace), texts(match.Name), match.Labels}
	for _, e := range except {
		r.Except = append(r.Except, Selector{Kinds: texts(e.Kind), Namespaces: texts(e.Namespace), Names: texts(e.Name)})
	}
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
