package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// resources is an amount of what nodes have and pods ask for.
type resources struct {
	milliCPU, memory, ephemeral int64
	scalar                      map[corev1.ResourceName]int64 // extended resources, huge pages
}

// unsaid is what a container that asks for nothing counts for in scores, so
// that such pods spread too; filters count it as nothing.
var unsaid = corev1.ResourceList{
	corev1.ResourceCPU:    *resource.NewMilliQuantity(100, resource.DecimalSI),
	corev1.ResourceMemory: *resource.NewQuantity(200<<20, resource.BinarySI),
}

func resourcesOf(list corev1.ResourceList) resources {
	var r resources
	for name, q := range list {
		switch name {
		case corev1.ResourceCPU:
			r.milliCPU = q.MilliValue()
		case corev1.ResourceMemory:
			r.memory = q.Value()
		case corev1.ResourceEphemeralStorage:
			r.ephemeral = q.Value()
		case corev1.ResourcePods:
		default:
			if r.scalar == nil {
				r.scalar = map[corev1.ResourceName]int64{}
			}
			r.scalar[name] = q.Value()
		}
	}
	return r
}

// requestsOf returns what a pod asks for, with init containers and overhead,
// and what it counts for in scores.
func requestsOf(pod *corev1.Pod) (asked, counted resources) {
	opts := resourcehelper.PodResourcesOptions{UseStatusResources: true}
	asked = resourcesOf(resourcehelper.PodRequests(pod, opts))
	if asked.milliCPU != 0 && asked.memory != 0 && allAsk(pod) {
		return asked, asked
	}
	opts.NonMissingContainerRequests = unsaid
	return asked, resourcesOf(resourcehelper.PodRequests(pod, opts))
}

// allAsk says whether every container says what it needs.
func allAsk(pod *corev1.Pod) bool {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			req := list[i].Resources.Requests
			if _, ok := req[corev1.ResourceCPU]; !ok {
				return false
			}
			if _, ok := req[corev1.ResourceMemory]; !ok {
				return false
			}
		}
	}
	return true
}

// add adds sign times another amount.
func (r *resources) add(o *resources, sign int64) {
	r.milliCPU += sign * o.milliCPU
	r.memory += sign * o.memory
	r.ephemeral += sign * o.ephemeral
	for name, v := range o.scalar {
		if r.scalar == nil {
			r.scalar = map[corev1.ResourceName]int64{}
		}
		r.scalar[name] += sign * v
	}
}
