package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind"
)

// Namespace is the judge of its kind.
var Namespace = &kind.Kind{
	Resource: schema.ResourceFor[*corev1.Namespace](),
	Name:     validation.ValidateNamespaceName,
	PrepareCreate: func(o schema.Object) {
		ns := o.(*corev1.Namespace)
		ns.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
		addFinalizer(ns)
		labelOwn(ns)
	},
	PrepareUpdate: func(o, old schema.Object) {
		ns := o.(*corev1.Namespace)
		ns.Spec.Finalizers = old.(*corev1.Namespace).Spec.Finalizers // the door is "finalize"
		labelOwn(ns)
	},
	PrepareStatus: func(o, old schema.Object) {
		if o.GetDeletionTimestamp() == nil {
			o.(*corev1.Namespace).Status.Phase = corev1.NamespaceActive
		}
	},
	Held: func(o schema.Object) bool { return len(o.(*corev1.Namespace).Spec.Finalizers) > 0 },
	PrepareDelete: func(o schema.Object) {
		o.(*corev1.Namespace).Status.Phase = corev1.NamespaceTerminating
		o.SetDeletionGracePeriodSeconds(nil) // it ends when it is empty
	},
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
