package validate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/support"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// RuleUnused is the rule of warnings about acceptances of what is not found.
const RuleUnused = "Unused"

// Acceptance is which findings about itself a manifest accepts: those that say
// that something is not honoured, by the path of the field, and RulePodSecurity.
type Acceptance struct {
	names []string
	used  map[string]bool
}

// Accepted reads what a manifest accepts.
func Accepted(m *render.Manifest) *Acceptance {
	a := &Acceptance{used: map[string]bool{}}
	if m.Masked || !bytes.Contains(m.JSON, []byte(v1alpha1.AcceptAnnotation)) {
		return a
	}
	var o struct {
		Metadata struct {
			Annotations map[string]any `json:"annotations"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(m.JSON, &o); err != nil {
		return a // Manifest says what is wrong
	}
	text, _ := o.Metadata.Annotations[v1alpha1.AcceptAnnotation].(string)
	for name := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\t' }) {
		if !slices.Contains(a.names, name) {
			a.names = append(a.names, name)
		}
	}
	return a
}

// Any says whether anything is accepted.
func (a *Acceptance) Any() bool { return len(a.names) > 0 }

// Takes says whether a finding of a name is accepted.
func (a *Acceptance) Takes(name string) bool { return a != nil && slices.Contains(a.names, name) }

// takes is Takes that notes that there is such a finding.
func (a *Acceptance) takes(name string) bool {
	a.used[name] = true
	return a.Takes(name)
}

// unused warns of what is accepted and not found. Of RulePodSecurity that is
// known only with the namespace.
func (a *Acceptance) unused(m *render.Manifest) (out []v1alpha1.Finding) {
	for _, name := range a.names {
		if a.used[name] || name == RulePodSecurity {
			continue
		}
		f := v1alpha1.Finding{Field: "metadata.annotations[" + v1alpha1.AcceptAnnotation + "]", Rule: RuleUnused,
			Message: fmt.Sprintf("%s accepts %s, and there is nothing of this name to accept", v1alpha1.AcceptAnnotation, name),
			Hint:    "take the name out"}
		locate(&f, m)
		out = append(out, f)
	}
	return out
}

func acceptHint(name string) string {
	return fmt.Sprintf("accept it: annotate the object %s: %s", v1alpha1.AcceptAnnotation, name)
}

// Applied is the JSON of a manifest as it is applied: without the fields that
// nothing honours, that the API would refuse, and that the manifest accepts to
// have no effect. So nothing in the cluster takes them for granted: a pod that
// asks for a user namespace it does not get would be allowed what is harmless
// in one.
func Applied(m *render.Manifest) []byte {
	accepted := Accepted(m)
	if len(accepted.names) == 0 {
		return m.JSON
	}
	o := Decode(m)
	if o == nil {
		return m.JSON
	}
	var paths [][]string
	for _, s := range support.Check(o) {
		if s.Row.LeftOut && s.Row.Git == support.Refuse && accepted.Takes(support.Name(s.Path)) {
			paths = append(paths, render.Steps(s.Row.Whole(s.Path.String())))
		}
	}
	var fields map[string]any
	if len(paths) == 0 || utiljson.Unmarshal(m.JSON, &fields) != nil {
		return m.JSON
	}
	for _, p := range paths {
		leaveOut(fields, p)
	}
	data, err := json.Marshal(fields)
	if err != nil {
		return m.JSON
	}
	return data
}

// DecodeApplied is Decode of what Applied leaves of a manifest.
func DecodeApplied(m *render.Manifest) schema.Object {
	return Decode(&render.Manifest{Head: m.Head, JSON: Applied(m)})
}

// leaveOut deletes the field at the end of a path.
func leaveOut(v any, path []string) {
	for i, step := range path {
		key := strings.TrimSuffix(strings.TrimPrefix(step, "["), "]")
		switch in := v.(type) {
		case map[string]any:
			if i == len(path)-1 {
				delete(in, key)
				return
			}
			v = in[key]
		case []any:
			at := -1
			if _, err := fmt.Sscanf(key, "%d", &at); err != nil || at < 0 || at >= len(in) {
				return
			}
			v = in[at]
		default:
			return
		}
	}
}
