package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestIsReady(t *testing.T) {
	status := func(boot string, ready corev1.ConditionStatus) *corev1.NodeStatus {
		return &corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: boot}, Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue}, {Type: corev1.NodeReady, Status: ready}}}
	}
	for _, c := range []struct {
		name string
		s    *corev1.NodeStatus
		want bool
	}{
		{"new", &corev1.NodeStatus{}, false},
		{"ready", status("b", corev1.ConditionTrue), true},
		{"not ready", status("b", corev1.ConditionFalse), false},
		{"of the boot before", status("a", corev1.ConditionTrue), false},
	} {
		if got := isReady(c.s, "b"); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
