package registry

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"

	"github.com/writ-os/writ/schema"
)

func namespaceRules(rules map[*schema.Resource]*rule) {
	rules[schema.ResourceFor[*corev1.Namespace]()] = &rule{
		name: validation.ValidateNamespaceName,
		create: func(o schema.Object) {
			ns := o.(*corev1.Namespace)
			ns.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
			addFinalizer(ns)
			labelOwn(ns)
		},
		update: func(o, old schema.Object) {
			ns := o.(*corev1.Namespace)
			ns.Spec.Finalizers = old.(*corev1.Namespace).Spec.Finalizers // the door is "finalize"
			labelOwn(ns)
		},
		status: func(o, old schema.Object) {
			if o.GetDeletionTimestamp() == nil {
				o.(*corev1.Namespace).Status.Phase = corev1.NamespaceActive
			}
		},
		held: func(o schema.Object) bool { return len(o.(*corev1.Namespace).Spec.Finalizers) > 0 },
		deleting: func(o schema.Object) {
			o.(*corev1.Namespace).Status.Phase = corev1.NamespaceTerminating
			o.SetDeletionGracePeriodSeconds(nil) // it ends when it is empty
		},
	}
}

// addFinalizer makes the namespace wait for the controller that empties it.
func addFinalizer(ns *corev1.Namespace) {
	for _, f := range ns.Spec.Finalizers {
		if f == corev1.FinalizerKubernetes {
			return
		}
	}
	ns.Spec.Finalizers = append(ns.Spec.Finalizers, corev1.FinalizerKubernetes)
}

// labelOwn lets selectors of namespaces name one.
func labelOwn(ns *corev1.Namespace) {
	if ns.Labels == nil {
		ns.Labels = map[string]string{}
	}
	ns.Labels[corev1.LabelMetadataName] = ns.Name
}
