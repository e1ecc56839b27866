package policy

import (
	"encoding/json"
	"path"

	"github.com/writ-os/writ/reconciler/render"
)

// podSpecs says where each kind that makes pods keeps their specification.
var podSpecs = map[string]string{
	"Pod":                   "spec",
	"PodTemplate":           "template.spec",
	"Deployment":            "spec.template.spec",
	"ReplicaSet":            "spec.template.spec",
	"StatefulSet":           "spec.template.spec",
	"DaemonSet":             "spec.template.spec",
	"ReplicationController": "spec.template.spec",
	"Job":                   "spec.template.spec",
	"CronJob":               "spec.jobTemplate.spec.template.spec",
}

// means says whether a rule is about an object.
func (r *rule) means(m *render.Manifest) bool {
	if r.podSpec && (podSpecs[m.Resource.Kind] == "" || m.Resource.Custom != nil) || !r.match.means(m) {
		return false
	}
	for i := range r.except {
		if r.except[i].means(m) {
			return false
		}
	}
	return true
}

func (s *selector) means(m *render.Manifest) bool {
	return one(s.versions, m.Resource.APIVersion()) && one(s.kinds, m.Resource.Kind) &&
		one(s.namespaces, m.Key.Namespace) && one(s.names, m.Key.Name) && s.labelled(m)
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

func (s *selector) labelled(m *render.Manifest) bool {
	if len(s.labels) == 0 {
		return true
	}
	var o struct {
		Metadata struct {
			Labels map[string]any `json:"labels"`
		} `json:"metadata"`
	}
	if json.Unmarshal(m.JSON, &o) != nil {
		return false
	}
	for key, want := range s.labels {
		if have, ok := o.Metadata.Labels[key].(string); !ok || !one([]string{want}, have) {
			return false
		}
	}
	return true
}
