package pod

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/component-helpers/resource"
)

// Resize is where a pod stands between the resources that its spec asks for and
// those that its containers have (KEP-1287).
type Resize struct {
	// Allocated are what the node has granted, Applied what containers run with;
	// by name. A container that is not there has what its spec says.
	Allocated, Applied map[string]corev1.ResourceRequirements
	// Pending is why the spec is not granted; nil when it is.
	Pending *Verdict
	// Failed is why what was granted could not be applied yet.
	Failed string
}

// progress says whether something granted is not applied yet.
func (r *Resize) progress() bool {
	for name, want := range r.Allocated {
		if have, ok := r.Applied[name]; ok && !sameResources(have, want) {
			return true
		}
	}
	return false
}

func sameResources(a, b corev1.ResourceRequirements) bool {
	return equality.Semantic.DeepEqual(a.Requests, b.Requests) && equality.Semantic.DeepEqual(a.Limits, b.Limits)
}

// resizable returns the containers whose resources may change while they run:
// the regular ones and the sidecars.
func resizable(pod *corev1.Pod) []*corev1.Container {
	var out []*corev1.Container
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; sidecar(c) {
			out = append(out, c)
		}
	}
	for i := range pod.Spec.Containers {
		out = append(out, &pod.Spec.Containers[i])
	}
	return out
}

// asksForMore says whether the spec differs from what is granted.
func (r *Resize) asks(pod *corev1.Pod) bool {
	for _, c := range resizable(pod) {
		if have, ok := r.Allocated[c.Name]; ok && !sameResources(have, c.Resources) {
			return true
		}
	}
	return false
}

// grant says why a node cannot give a pod what its spec asks for now; nil means
// that it can. others are the requests of all other pods of the node.
func grant(pod *corev1.Pod, allocatable, others corev1.ResourceList) *Verdict {
	if isStatic(pod) {
		return &Verdict{corev1.PodReasonInfeasible, "In-place resize of static-pods is not supported"}
	}
	want := resource.PodRequests(pod, resource.PodResourcesOptions{})
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		total, known := allocatable[name]
		if !known {
			continue
		}
		units := func(l corev1.ResourceList) int64 {
			q := l[name]
			if name == corev1.ResourceCPU {
				return q.MilliValue()
			}
			return q.Value()
		}
		asked, used, capacity := units(want), units(others), units(corev1.ResourceList{name: total})
		switch {
		case asked > capacity:
			return &Verdict{corev1.PodReasonInfeasible, fmt.Sprintf("Node didn't have enough capacity: %s, requested: %d, capacity: %d", name, asked, capacity)}
		case asked+used > capacity:
			return &Verdict{corev1.PodReasonDeferred, fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", name, asked, used, capacity)}
		}
	}
	return nil
}

// restarts says whether a container must start anew to get other resources.
func restarts(c *corev1.Container, from, to corev1.ResourceRequirements) bool {
	for _, p := range c.ResizePolicy {
		if p.RestartPolicy != corev1.RestartContainer {
			continue
		}
		for _, l := range [][2]corev1.ResourceList{{from.Requests, to.Requests}, {from.Limits, to.Limits}} {
			a, b := l[0][p.ResourceName], l[1][p.ResourceName]
			if !a.Equal(b) {
				return true
			}
		}
	}
	return false
}

// allocated returns the pod with the resources that it was granted.
func (r *Resize) allocated(pod *corev1.Pod) *corev1.Pod {
	if !r.asks(pod) {
		return pod
	}
	out := pod.DeepCopy()
	for _, c := range resizable(out) {
		if have, ok := r.Allocated[c.Name]; ok {
			c.Resources.Requests, c.Resources.Limits = have.Requests, have.Limits
		}
	}
	return out
}

// resizeConditions says where the resize stands. Without a resize there are
// none.
func (s *step) resizeConditions() []corev1.PodCondition {
	var out []corev1.PodCondition
	if s.Resize == nil || terminal(s.Last.Phase) {
		return nil
	}
	if v := s.Resize.Pending; v != nil {
		out = append(out, corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: v.Reason, Message: v.Message})
	}
	if s.Resize.progress() {
		c := truth(corev1.PodResizeInProgress, true)
		if s.Resize.Failed != "" {
			c.Reason, c.Message = corev1.PodReasonError, s.Resize.Failed
		}
		out = append(out, c)
	}
	return out
}

// resources shows what a container was granted, and what it runs with.
func (s *step) resources(spec *corev1.Container, st *corev1.ContainerStatus) {
	allocated, applied := spec.Resources, spec.Resources
	if s.Resize != nil {
		if r, ok := s.Resize.Allocated[spec.Name]; ok {
			allocated, applied = r, r
		}
		if r, ok := s.Resize.Applied[spec.Name]; ok {
			applied = r
		}
	}
	if len(allocated.Requests) > 0 {
		st.AllocatedResources = allocated.Requests
	}
	if len(applied.Requests) > 0 || len(applied.Limits) > 0 {
		st.Resources = &corev1.ResourceRequirements{Requests: applied.Requests, Limits: applied.Limits}
	}
}
