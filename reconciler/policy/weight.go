package policy

import (
	_ "embed"

	"cuelang.org/go/cue"

	"github.com/writ-os/writ/reconciler/cuerule"
	"github.com/writ-os/writ/reconciler/render"
)

//go:embed weight.cue
var weightCUE string

// Weighed are the findings whose severity may be set, by their rules.
var Weighed = []string{"MissingReference", "MissingKey", "MissingPort", "SelectsNothing", "LaterWave", "UnknownKey", "MustEncrypt"}

// Severity is what becomes of a commit with a finding.
type Severity string

// Severities, the mildest first.
const (
	Ignore Severity = "ignore"
	Warn   Severity = "warn"
	Refuse Severity = "refuse"
)

// weight is a rule that sets the severity of a finding of the cluster's own.
type weight struct {
	cuerule.Rule
	Finding  string
	Severity Severity
}

func (w *weight) read(v cue.Value) error {
	if err := v.Validate(); err != nil {
		return err
	}
	if err := w.ReadMatch(v); err != nil {
		return err
	}
	if err := cuerule.Decode(v, "finding", &w.Finding); err != nil {
		return err
	}
	return cuerule.Decode(v, "severity", &w.Severity)
}

// Severity is that of a finding about an object, by the rule that it breaks:
// the heaviest of those that the rules say, and usual where they say none.
func (s *Set) Severity(finding string, h *render.Head, usual Severity) Severity {
	if s == nil || len(s.weights) == 0 {
		return usual
	}
	o := cuerule.Object{APIVersion: h.Resource.APIVersion(), Kind: h.Resource.Kind, Namespace: h.Key.Namespace, Name: h.Key.Name}
	out := Severity("")
	for i := range s.weights {
		if w := &s.weights[i]; w.Finding == finding && w.Means(&o) && heavier(w.Severity, out) {
			out = w.Severity
		}
	}
	if out == "" {
		return usual
	}
	return out
}

func heavier(a, b Severity) bool {
	order := map[Severity]int{Ignore: 1, Warn: 2, Refuse: 3}
	return order[a] > order[b]
}
