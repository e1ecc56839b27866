package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TopologyErrors are what is wrong with the topologies that a class of storage
// is there for.
func TopologyErrors(terms []corev1.TopologySelectorTerm, at *field.Path) field.ErrorList {
	c := &check{}
	for i, t := range terms {
		keys := sets.New[string]()
		for j, r := range t.MatchLabelExpressions {
			at := at.Index(i).Child("matchLabelExpressions").Index(j)
			if len(r.Values) == 0 {
				c.required(at.Child("values"), "")
			}
			values := sets.New[string]()
			for k, v := range r.Values {
				if values.Has(v) {
					c.add(field.Duplicate(at.Child("values").Index(k), v))
				}
				values.Insert(v)
			}
			c.labelKey(at.Child("key"), r.Key)
			if keys.Has(r.Key) {
				c.add(field.Duplicate(at.Child("key"), r.Key))
			}
			keys.Insert(r.Key)
		}
	}
	return c.errs
}
