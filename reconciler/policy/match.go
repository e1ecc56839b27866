package policy

import "encoding/json"

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
func (r *rule) means(o *object) bool {
	return (!r.PodSpec || podSpecs[o.m.Resource.Kind] != "" && o.m.Resource.Custom == nil) && r.Means(&o.seen)
}

// labels are those of the manifest that are texts.
func (o *object) labels() map[string]string {
	if o.labelled != nil {
		return o.labelled
	}
	var fields struct {
		Metadata struct {
			Labels map[string]any `json:"labels"`
		} `json:"metadata"`
	}
	o.labelled = map[string]string{}
	if json.Unmarshal(o.m.JSON, &fields) != nil {
		return o.labelled
	}
	for key, value := range fields.Metadata.Labels {
		if text, ok := value.(string); ok {
			o.labelled[key] = text
		}
	}
	return o.labelled
}
