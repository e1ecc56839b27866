// Package quota measures what objects use of a ResourceQuota: pods, services,
// claims, resource claims, and any other resource by count.
//
// It is pure: admission charges with it what comes, and the quota controller
// counts with it what is there. Names and rules are upstream's.
package quota

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	lists "k8s.io/apiserver/pkg/quota/v1"

	"github.com/writ-os/writ/schema"
)

// Evaluator measures the objects of one resource.
type Evaluator struct {
	// Resource is what it measures.
	Resource kschema.GroupResource
	// names says whether a name in a quota is one of this resource's.
	names func(corev1.ResourceName) bool
	// scope says whether an object is in a scope. nil: it is in none.
	scope func(corev1.ScopedResourceSelectorRequirement, schema.Object) bool
	// usage is what an object uses.
	usage func(schema.Object, time.Time) corev1.ResourceList
	// require says what an object must name because a quota counts it. nil:
	// nothing.
	require func([]corev1.ResourceName, schema.Object) error
	// charges says whether a write can change the usage. nil: creates only.
	charges func(verb, sub string, o, old schema.Object) bool
}

// For returns the evaluator of a resource; nil for what no quota counts.
func For(gr kschema.GroupResource) *Evaluator {
	switch gr {
	case corev1.Resource("pods"):
		return pods
	case corev1.Resource("services"):
		return services
	case corev1.Resource("persistentvolumeclaims"):
		return claims
	case kschema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"}:
		return deviceClaims
	}
	if gr.Resource == "events" && (gr.Group == "" || gr.Group == "events.k8s.io") {
		return nil // never were, and a full quota must not silence them
	}
	return counted(gr, aliases[gr])
}

// aliases are the names from before count/<resource>.
var aliases = map[kschema.GroupResource]corev1.ResourceName{
	corev1.Resource("configmaps"):             corev1.ResourceConfigMaps,
	corev1.Resource("resourcequotas"):         corev1.ResourceQuotas,
	corev1.Resource("replicationcontrollers"): corev1.ResourceReplicationControllers,
	corev1.Resource("secrets"):                corev1.ResourceSecrets,
}

// CountName is the name under which a quota counts the objects of a resource.
func CountName(gr kschema.GroupResource) corev1.ResourceName {
	return corev1.ResourceName("count/" + gr.String())
}

func one() resource.Quantity { return *resource.NewQuantity(1, resource.DecimalSI) }

func counted(gr kschema.GroupResource, alias corev1.ResourceName) *Evaluator {
	name := CountName(gr)
	return &Evaluator{
		Resource: gr,
		names:    func(n corev1.ResourceName) bool { return n == name || alias != "" && n == alias },
		usage: func(schema.Object, time.Time) corev1.ResourceList {
			out := corev1.ResourceList{name: one()}
			if alias != "" {
				out[alias] = one()
			}
			return out
		},
	}
}

// Usage is what an object uses of every name that a quota may have.
func (e *Evaluator) Usage(o schema.Object, now time.Time) corev1.ResourceList { return e.usage(o, now) }

// Charges says whether a write can change the usage.
func (e *Evaluator) Charges(verb, sub string, o, old schema.Object) bool {
	if e.charges == nil {
		return verb == "create" && sub == ""
	}
	return e.charges(verb, sub, o, old)
}

// Names are those of a list that belong to the resource.
func (e *Evaluator) Names(list []corev1.ResourceName) []corev1.ResourceName {
	var out []corev1.ResourceName
	for _, n := range list {
		if e.names(n) {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

// Require says what an object must name because a quota counts it.
func (e *Evaluator) Require(names []corev1.ResourceName, o schema.Object) error {
	if e.require == nil {
		return nil
	}
	return e.require(names, o)
}

// InScope says whether an object is in all scopes of a quota.
func (e *Evaluator) InScope(q *corev1.ResourceQuota, o schema.Object) bool {
	for _, s := range scopes(q) {
		if e.scope == nil || !e.scope(s, o) {
			return false
		}
	}
	return true
}

// Matches says whether a quota is about an object: it has a name of the
// resource in its status, and the object is in its scopes.
func (e *Evaluator) Matches(q *corev1.ResourceQuota, o schema.Object) bool {
	return len(e.Names(lists.ResourceNames(q.Status.Hard))) > 0 && e.InScope(q, o)
}

func scopes(q *corev1.ResourceQuota) []corev1.ScopedResourceSelectorRequirement {
	var out []corev1.ScopedResourceSelectorRequirement
	for _, s := range q.Spec.Scopes {
		out = append(out, corev1.ScopedResourceSelectorRequirement{ScopeName: s, Operator: corev1.ScopeSelectorOpExists})
	}
	if q.Spec.ScopeSelector != nil {
		out = append(out, q.Spec.ScopeSelector.MatchExpressions...)
	}
	return out
}

// Resources are those that a quota counts, of all that there are, sorted.
func Resources(q *corev1.ResourceQuota, all []*schema.Resource) []*schema.Resource {
	hard := lists.ResourceNames(q.Spec.Hard)
	var out []*schema.Resource
	seen := map[kschema.GroupResource]bool{}
	for _, r := range all {
		gr := r.GroupResource()
		if !r.Namespaced || r.Stored() != r && r.Custom == nil || seen[gr] {
			continue
		}
		if e := For(gr); e != nil && len(e.Names(hard)) > 0 {
			seen[gr] = true
			out = append(out, r)
		}
	}
	return out
}

// Used counts what is used of a quota: of every name in its spec, zero where
// nothing is. list returns the objects of a resource in the quota's namespace.
func Used(q *corev1.ResourceQuota, all []*schema.Resource, now time.Time, list func(*schema.Resource) []schema.Object) corev1.ResourceList {
	hard := lists.ResourceNames(q.Spec.Hard)
	used := corev1.ResourceList{}
	for _, n := range hard {
		used[n] = resource.Quantity{Format: resource.DecimalSI}
	}
	for _, r := range Resources(q, all) {
		e := For(r.GroupResource())
		for _, o := range list(r) {
			if e.InScope(q, o) {
				used = lists.Add(used, lists.Mask(e.usage(o, now), e.Names(hard)))
			}
		}
	}
	return lists.Mask(used, hard)
}

// matchValue evaluates a scope selector for a value; "" has none.
func matchValue(s corev1.ScopedResourceSelectorRequirement, value string) bool {
	switch s.Operator {
	case corev1.ScopeSelectorOpExists:
		return value != ""
	case corev1.ScopeSelectorOpDoesNotExist:
		return value == ""
	case corev1.ScopeSelectorOpIn:
		return value != "" && slices.Contains(s.Values, value)
	case corev1.ScopeSelectorOpNotIn:
		return !slices.Contains(s.Values, value) || value == ""
	}
	return false
}
