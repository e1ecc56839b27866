package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// qosOf is a pod's class of service: Guaranteed when every container has limits
// of CPU and memory that equal its requests, BestEffort when none asks for
// anything, else Burstable.
func qosOf(pod *corev1.Pod) corev1.PodQOSClass {
	if r := pod.Spec.Resources; r != nil && (asksAny(r) || len(r.Limits) > 0) {
		if guaranteed(r) {
			return corev1.PodQOSGuaranteed
		}
		return corev1.PodQOSBurstable
	}
	any, all := false, true
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			any = any || asksAny(&list[i].Resources)
			all = all && guaranteed(&list[i].Resources)
		}
	}
	switch {
	case !any:
		return corev1.PodQOSBestEffort
	case all:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}

var qosResources = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

func asksAny(r *corev1.ResourceRequirements) bool {
	for _, name := range qosResources {
		if positive(r.Requests, name) || positive(r.Limits, name) {
			return true
		}
	}
	return false
}

func guaranteed(r *corev1.ResourceRequirements) bool {
	for _, name := range qosResources {
		if !positive(r.Limits, name) {
			return false
		}
		request, ok := r.Requests[name]
		if limit := r.Limits[name]; ok && request.Cmp(limit) != 0 {
			return false
		}
	}
	return true
}

func positive(list corev1.ResourceList, name corev1.ResourceName) bool {
	q, ok := list[name]
	return ok && q.Cmp(resource.Quantity{}) > 0
}
