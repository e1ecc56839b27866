package certificates

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
)

const (
	nodePrefix     = "system:node:"
	leaseNamespace = "kube-node-lease"
	// silence is how long a node gives no sign of life until another machine may
	// have its name: the duration of its Lease.
	silence = 40 * time.Second
)

// GivenUpAnnotation on a Node says, with any value, that its machine does not
// come back: one that joins may have its name when it is silent. Nodes cannot
// write it.
const GivenUpAnnotation = "writ.dev/given-up"

// taken says whether a name is that of a node which was not given up: one that
// gives signs of life, or whose Node was neither deleted nor marked. That a node
// is silent is not enough, for it is whenever it starts again. A Node that no
// machine has reported for yet, one that was made before its machine, is free.
func taken(node *corev1.Node, lease *coordinationv1.Lease, now time.Time) bool {
	if lease != nil && lease.Spec.RenewTime != nil && now.Sub(lease.Spec.RenewTime.Time).Abs() < silence {
		return true
	}
	if node == nil || lease == nil && node.Status.NodeInfo.KubeletVersion == "" && ready(node) == nil {
		return false
	}
	_, given := node.Annotations[GivenUpAnnotation]
	return !given || lives(node)
}

// lives says whether the control plane has heard of a node of late.
func lives(n *corev1.Node) bool {
	c := ready(n)
	return c != nil && c.Status != corev1.ConditionUnknown
}

func ready(n *corev1.Node) *corev1.NodeCondition {
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c
		}
	}
	return nil
}
