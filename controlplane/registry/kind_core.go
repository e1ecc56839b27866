package registry

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/core"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// coreRules are those of kinds that need one or two lines.
func coreRules(rules map[*schema.Resource]*rule) {
	rules[schema.ResourceFor[*corev1.Node]()] = &rule{
		ownSchema: true, ownImmutable: true,
		normal:         func(o schema.Object) { nodeRanges(o.(*corev1.Node)) },
		validateNew:    func(o schema.Object) field.ErrorList { return core.NodeErrors(o.(*corev1.Node)) },
		validateUpdate: nodeUpdate,
		validateDoor:   func(_ string, o, old schema.Object) field.ErrorList { return nodeUpdate(o, old) },
	}
	rules[schema.ResourceFor[*corev1.PodTemplate]()] = podTemplateRule()
	rules[schema.ResourceFor[*corev1.ResourceQuota]()] = &rule{
		ownSchema: true, ownImmutable: true,
		validate: func(o schema.Object) field.ErrorList { return core.QuotaErrors(o.(*corev1.ResourceQuota)) },
		validateUpdate: func(o, old schema.Object) field.ErrorList {
			return core.QuotaUpdateErrors(o.(*corev1.ResourceQuota), old.(*corev1.ResourceQuota))
		},
		validateDoor: func(_ string, o, _ schema.Object) field.ErrorList {
			return core.QuotaStatusErrors(o.(*corev1.ResourceQuota))
		},
	}
	rules[schema.ResourceFor[*corev1.Endpoints]()] = &rule{createOnUpdate: true}
	rules[schema.ResourceFor[*corev1.Event]()] = &rule{createOnUpdate: true, name: pathSegment, validate: eventErrors}
	rules[schema.ResourceFor[*corev1.LimitRange]()] = &rule{
		createOnUpdate: true, ownSchema: true,
		validate: func(o schema.Object) field.ErrorList { return core.LimitRangeErrors(o.(*corev1.LimitRange)) },
	}
	rules[schema.ResourceFor[*coordinationv1.Lease]()] = leaseRule()
	rules[schema.ResourceFor[*discoveryv1.EndpointSlice]()] = &rule{
		create: func(o schema.Object) { o.SetGeneration(1) },
		update: func(o, old schema.Object) {
			s, was := o.(*discoveryv1.EndpointSlice), old.(*discoveryv1.EndpointSlice)
			if !apiequality.Semantic.DeepEqual(s.Endpoints, was.Endpoints) || !apiequality.Semantic.DeepEqual(s.Ports, was.Ports) ||
				!apiequality.Semantic.DeepEqual(s.Labels, was.Labels) {
				s.Generation = was.Generation + 1
			}
		},
	}
	rules[schema.ResourceFor[*schedulingv1.PriorityClass]()] = priorityRule()
	rules[schema.ResourceFor[*v1alpha1.Cluster]()] = &rule{generation: true}
	rules[schema.ResourceFor[*v1alpha1.Repository]()] = &rule{generation: true}
	rules[schema.ResourceFor[*v1alpha1.Commit]()] = &rule{generation: true}
	rules[schema.ResourceFor[*v1alpha1.NodePool]()] = &rule{generation: true}
	rules[schema.ResourceFor[*v1alpha1.NodeImage]()] = &rule{generation: true}
}

func nodeUpdate(o, old schema.Object) field.ErrorList {
	return core.NodeUpdateErrors(o.(*corev1.Node), old.(*corev1.Node))
}

// nodeRanges makes the one range of a node the first of all of them, as it is
// in upstream's internal form.
func nodeRanges(n *corev1.Node) {
	switch s := &n.Spec; {
	case len(s.PodCIDRs) == 0 && s.PodCIDR != "":
		s.PodCIDRs = []string{s.PodCIDR}
	case len(s.PodCIDRs) > 0 && s.PodCIDR == "":
		s.PodCIDR = s.PodCIDRs[0]
	}
}

// eventErrors: an event lives where its object does.
func eventErrors(o schema.Object) field.ErrorList {
	e := o.(*corev1.Event)
	in := e.InvolvedObject.Namespace
	if in == "" && e.Namespace != "default" && e.Namespace != "kube-system" || in != "" && in != e.Namespace {
		return field.ErrorList{field.Invalid(field.NewPath("involvedObject", "namespace"), in, "does not match event.namespace")}
	}
	return nil
}
