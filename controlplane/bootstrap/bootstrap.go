// Package bootstrap knows the objects that a Kubernetes API server makes for
// itself: what shares its capacity among clients, the priorities of pods that a
// cluster cannot do without, the range of service addresses, and the entries of
// the API's own groups.
//
// It watches nothing and owns nothing: every function returns new objects, and
// the caller creates those that are missing. Values are upstream's, v1.36.
package bootstrap

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/defaults"
)

// Objects are all objects that a new cluster has, complete with defaults, but
// for those that depend on how it was set up: see ServiceCIDR and APIServices.
func Objects() []schema.Object {
	return append(Flowcontrol(), PriorityClasses()...)
}

// Flowcontrol are the priority levels and flow schemas: the mandatory ones,
// which nobody may change or delete, then those that are suggested. Objects
// whose annotation apf.kubernetes.io/autoupdate-spec is "true" follow these
// values from release to release; an administrator who sets it to "false" keeps
// their own.
func Flowcontrol() []schema.Object {
	var out []schema.Object
	for _, set := range [][]*flowcontrolv1.PriorityLevelConfiguration{bootstrap.MandatoryPriorityLevelConfigurations, bootstrap.SuggestedPriorityLevelConfigurations} {
		for _, l := range set {
			out = append(out, complete(l.DeepCopy()))
		}
	}
	for _, set := range [][]*flowcontrolv1.FlowSchema{bootstrap.MandatoryFlowSchemas, bootstrap.SuggestedFlowSchemas} {
		for _, f := range set {
			out = append(out, complete(f.DeepCopy()))
		}
	}
	return out
}

// Mandatory says whether a flow schema or a priority level must be there as it
// is in Flowcontrol.
func Mandatory(o schema.Object) bool {
	switch o.(type) {
	case *flowcontrolv1.FlowSchema, *flowcontrolv1.PriorityLevelConfiguration:
		return o.GetName() == flowcontrolv1.FlowSchemaNameExempt || o.GetName() == flowcontrolv1.FlowSchemaNameCatchAll
	}
	return false
}

// systemPriority is the lowest priority that users cannot give.
const systemPriority int32 = 2000000000

// PriorityClasses are those of pods that a cluster or a node cannot do without.
func PriorityClasses() []schema.Object {
	class := func(name string, value int32, text string) schema.Object {
		return complete(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, Description: text})
	}
	return []schema.Object{
		class("system-node-critical", systemPriority+1000, "Used for system critical pods that must not be moved from their current node."),
		class("system-cluster-critical", systemPriority, "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."),
	}
}

// ServiceCIDR is the range, or the two ranges of both families, from which
// services get their addresses when the cluster starts.
func ServiceCIDR(ranges ...string) *networkingv1.ServiceCIDR {
	o := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: ranges}}
	complete(o)
	return o
}

// complete sets the kind and the defaults of an object that is the caller's.
func complete(o schema.Object) schema.Object {
	o.GetObjectKind().SetGroupVersionKind(schema.ResourceOf(o).GVK())
	defaults.Apply(o)
	return o
}
