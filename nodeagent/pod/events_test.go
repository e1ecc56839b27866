package pod

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A back-off is told once for each attempt that failed.
func TestNewBackOffs(t *testing.T) {
	status := func(reason string, restarts int32) *corev1.PodStatus {
		c := corev1.ContainerStatus{Name: "c", RestartCount: restarts}
		if reason != "" {
			c.State.Waiting = &corev1.ContainerStateWaiting{Reason: reason}
		}
		return &corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{c}}
	}
	for _, c := range []struct {
		name       string
		last, next *corev1.PodStatus
		want       []string
	}{
		{"begins", status("", 1), status("CrashLoopBackOff", 1), []string{"c"}},
		{"goes on", status("CrashLoopBackOff", 1), status("CrashLoopBackOff", 1), nil},
		{"again", status("CrashLoopBackOff", 1), status("CrashLoopBackOff", 2), []string{"c"}},
		{"ends", status("CrashLoopBackOff", 1), status("", 2), nil},
		{"waits for something else", status("", 1), status("ContainerCreating", 1), nil},
	} {
		if got := newBackOffs(c.last, c.next); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
