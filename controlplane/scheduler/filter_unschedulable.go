package scheduler

import corev1 "k8s.io/api/core/v1"

const reasonUnschedulable = "node(s) were unschedulable"

// nodeUnschedulable keeps pods off a cordoned node, unless they tolerate the
// taint that says so.
func nodeUnschedulable(p *podInfo, n *nodeInfo, reasons []string) []string {
	if !n.node.Spec.Unschedulable || tolerates(p, &corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}) {
		return reasons
	}
	return append(reasons, reasonUnschedulable)
}
