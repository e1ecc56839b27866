package registry

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// coreRules are those of kinds that need one or two lines.
func coreRules(rules map[*schema.Resource]*rule) {
	rules[schema.ResourceFor[*corev1.Node]()] = &rule{
		validateUpdate: func(o, old schema.Object) field.ErrorList {
			return nodeUpdateErrors(o.(*corev1.Node), old.(*corev1.Node))
		},
	}
	rules[schema.ResourceFor[*corev1.Endpoints]()] = &rule{createOnUpdate: true}
	rules[schema.ResourceFor[*corev1.Event]()] = &rule{createOnUpdate: true, validate: eventErrors}
	rules[schema.ResourceFor[*corev1.LimitRange]()] = &rule{createOnUpdate: true}
	rules[schema.ResourceFor[*coordinationv1.Lease]()] = &rule{createOnUpdate: true}
	rules[schema.ResourceFor[*networkingv1.Ingress]()] = &rule{generation: true}
	rules[schema.ResourceFor[*networkingv1.NetworkPolicy]()] = &rule{generation: true}
	rules[schema.ResourceFor[*networkingv1.IngressClass]()] = &rule{generation: true}
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
	rules[schema.ResourceFor[*schedulingv1.PriorityClass]()] = &rule{
		ownImmutable: true,
		validateUpdate: func(o, old schema.Object) field.ErrorList {
			return priorityUpdateErrors(o.(*schedulingv1.PriorityClass), old.(*schedulingv1.PriorityClass))
		},
	}
	rules[schema.ResourceFor[*v1alpha1.Cluster]()] = &rule{generation: true}
	rules[schema.ResourceFor[*v1alpha1.Repository]()] = &rule{generation: true}
	rules[schema.ResourceFor[*v1alpha1.Commit]()] = &rule{generation: true}
}

// nodeUpdateErrors: what a node is cannot change, once it is known.
func nodeUpdateErrors(n, old *corev1.Node) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("spec")
	if len(old.Spec.PodCIDRs) > 0 && !apiequality.Semantic.DeepEqual(n.Spec.PodCIDRs, old.Spec.PodCIDRs) {
		errs = append(errs, field.Forbidden(at.Child("podCIDRs"), "node updates may not change podCIDR except from \"\" to valid"))
	}
	if old.Spec.ProviderID != "" && n.Spec.ProviderID != old.Spec.ProviderID {
		errs = append(errs, field.Forbidden(at.Child("providerID"), "node updates may not change providerID except from \"\" to valid"))
	}
	return errs
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

func priorityUpdateErrors(c, old *schedulingv1.PriorityClass) field.ErrorList {
	var errs field.ErrorList
	if c.Value != old.Value {
		errs = append(errs, field.Forbidden(field.NewPath("value"), "may not be changed in an update."))
	}
	if !apiequality.Semantic.DeepEqual(c.PreemptionPolicy, old.PreemptionPolicy) {
		errs = append(errs, field.Invalid(field.NewPath("preemptionPolicy"), c.PreemptionPolicy, immutableField))
	}
	return errs
}
