package stats

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// NodeUsage is what a node used between two Summaries of it, as metrics.k8s.io
// shows it: processor time per second between them, memory as of the later.
// false means that nothing can be said yet, or that the node was restarted in
// between.
func NodeUsage(before, after *statsapi.Summary) (metricsv1beta1.NodeMetrics, bool) {
	list, at, window, ok := between(before.Node.CPU, after.Node.CPU, after.Node.Memory)
	return metricsv1beta1.NodeMetrics{
		TypeMeta:   metav1.TypeMeta{APIVersion: "metrics.k8s.io/v1beta1", Kind: "NodeMetrics"},
		ObjectMeta: metav1.ObjectMeta{Name: after.Node.NodeName, CreationTimestamp: at},
		Timestamp:  at, Window: window, Usage: list,
	}, ok
}

// PodUsage is what the pods of a node used between two Summaries of it. As with
// upstream's metrics-server a pod is left out until all of its containers were
// measured twice, each since it was started.
func PodUsage(before, after *statsapi.Summary) []metricsv1beta1.PodMetrics {
	old := map[statsapi.PodReference]*statsapi.PodStats{}
	for i := range before.Pods {
		old[before.Pods[i].PodRef] = &before.Pods[i]
	}
	var out []metricsv1beta1.PodMetrics
	for i := range after.Pods {
		if prev := old[after.Pods[i].PodRef]; prev != nil {
			if m, ok := podUsage(prev, &after.Pods[i]); ok {
				out = append(out, m)
			}
		}
	}
	return out
}

func podUsage(before, after *statsapi.PodStats) (metricsv1beta1.PodMetrics, bool) {
	out := metricsv1beta1.PodMetrics{
		TypeMeta:   metav1.TypeMeta{APIVersion: "metrics.k8s.io/v1beta1", Kind: "PodMetrics"},
		ObjectMeta: metav1.ObjectMeta{Namespace: after.PodRef.Namespace, Name: after.PodRef.Name},
	}
	old := map[string]*statsapi.ContainerStats{}
	for i := range before.Containers {
		old[before.Containers[i].Name] = &before.Containers[i]
	}
	for i := range after.Containers {
		c := &after.Containers[i]
		prev := old[c.Name]
		if prev == nil || !prev.StartTime.Equal(&c.StartTime) {
			return out, false
		}
		list, at, window, ok := between(prev.CPU, c.CPU, c.Memory)
		if !ok {
			return out, false
		}
		// The earliest time and the widest window hold for all containers.
		if out.Timestamp.IsZero() || at.Before(&out.Timestamp) {
			out.Timestamp, out.CreationTimestamp = at, at
		}
		out.Window.Duration = max(out.Window.Duration, window.Duration)
		out.Containers = append(out.Containers, metricsv1beta1.ContainerMetrics{Name: c.Name, Usage: list})
	}
	return out, len(out.Containers) > 0
}

// between computes usage from two readings of a counter.
func between(before, after *statsapi.CPUStats, memory *statsapi.MemoryStats) (corev1.ResourceList, metav1.Time, metav1.Duration, bool) {
	if before == nil || after == nil || memory == nil || memory.WorkingSetBytes == nil ||
		before.UsageCoreNanoSeconds == nil || after.UsageCoreNanoSeconds == nil {
		return nil, metav1.Time{}, metav1.Duration{}, false
	}
	window := after.Time.Sub(before.Time.Time)
	if window <= 0 || *after.UsageCoreNanoSeconds < *before.UsageCoreNanoSeconds {
		return nil, metav1.Time{}, metav1.Duration{}, false
	}
	nanoCores := int64(float64(*after.UsageCoreNanoSeconds-*before.UsageCoreNanoSeconds) / window.Seconds())
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewScaledQuantity(nanoCores, resource.Nano),
		corev1.ResourceMemory: *resource.NewQuantity(int64(*memory.WorkingSetBytes), resource.BinarySI),
	}, metav1.NewTime(after.Time.Truncate(time.Second)), metav1.Duration{Duration: window.Round(time.Millisecond)}, true
}
