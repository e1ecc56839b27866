package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// taintToleration keeps pods off nodes with a taint (NoSchedule, NoExecute)
// that they do not tolerate.
func taintToleration(p *podInfo, n *nodeInfo, reasons []string) []string {
	for i := range n.hard {
		if !tolerates(p, &n.hard[i].Taint) {
			return append(reasons, n.hard[i].refusal)
		}
	}
	return reasons
}

func tolerates(p *podInfo, t *corev1.Taint) bool {
	for i := range p.pod.Spec.Tolerations {
		if p.pod.Spec.Tolerations[i].ToleratesTaint(klog.Logger{}, t, false) {
			return true
		}
	}
	return false
}
