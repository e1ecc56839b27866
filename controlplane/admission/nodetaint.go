package admission

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
)

// TaintNodes makes a new Node not ready, so that nothing is scheduled to it
// before the node life-cycle controller has seen it ready.
type TaintNodes struct{ mutates }

var _ registry.Admission = (*TaintNodes)(nil)

// Handles implements registry.Handler.
func (*TaintNodes) Handles(verb string, r *schema.Resource, sub string) bool {
	return verb == "create" && sub == "" && is(r, "", "nodes")
}

// Mutate implements registry.Admission.
func (*TaintNodes) Mutate(_ context.Context, a *registry.Attributes) error {
	node, ok := a.Object.(*corev1.Node)
	if !ok {
		return nil
	}
	for _, t := range node.Spec.Taints {
		if t.Key == corev1.TaintNodeNotReady && t.Effect == corev1.TaintEffectNoSchedule {
			return nil
		}
	}
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
	return nil
}
