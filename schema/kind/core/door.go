package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// EphemeralErrors are what is wrong with a change through the door of ephemeral
// containers: they come, and never go.
func EphemeralErrors(o, old *corev1.Pod) field.ErrorList {
	if _, ok := old.Annotations[corev1.MirrorPodAnnotationKey]; ok {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods do not support ephemeral containers")}
	}
	c := &check{errs: stillErrors(podErrors(o), podErrors(old), old)}
	at := field.NewPath("spec", "ephemeralContainers")
	now := map[string]*corev1.EphemeralContainer{}
	for i := range o.Spec.EphemeralContainers {
		now[o.Spec.EphemeralContainers[i].Name] = &o.Spec.EphemeralContainers[i]
	}
	for _, was := range old.Spec.EphemeralContainers {
		is, ok := now[was.Name]
		switch {
		case !ok:
			c.forbid(at, fmt.Sprintf("existing ephemeral containers %q may not be removed\n", was.Name))
		case !apiequality.Semantic.DeepEqual(was, *is):
			c.forbid(at, fmt.Sprintf("existing ephemeral containers %q may not be changed\n%s", was.Name, Diff(was, *is)))
		}
	}
	return c.errs
}

const onlyCompute = "only cpu and memory resources are mutable"

// ResizeErrors are what is wrong with a change through the door of resizing.
// The quality of service is that of the old pod and of the new one.
func ResizeErrors(o, old *corev1.Pod, was, is corev1.PodQOSClass) field.ErrorList {
	if _, ok := old.Annotations[corev1.MirrorPodAnnotationKey]; ok {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods cannot be resized")}
	}
	if old.Spec.OS != nil && old.Spec.OS.Name == corev1.Windows {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "windows pods cannot be resized")}
	}
	c, at := &check{errs: stillErrors(podErrors(o), podErrors(old), old)}, field.NewPath("spec")
	if was != is {
		c.invalid(at, o.Status.QOSClass, "Pod QOS Class may not change as a result of resizing")
	}
	if !resizable(old) {
		c.forbid(at, "Pod running on node without support for resize")
	}
	rest := o.Spec.DeepCopy()
	c.wholeResize(rest, &old.Spec, at)
	if !c.sameContainers(o.Spec.Containers, old.Spec.Containers, "containers", at) ||
		!c.sameContainers(o.Spec.InitContainers, old.Spec.InitContainers, "initContainers", at) {
		return c.errs
	}
	c.removedResources(o.Spec.InitContainers, old.Spec.InitContainers, at.Child("initContainers"))
	c.removedResources(o.Spec.Containers, old.Spec.Containers, at.Child("containers"))
	for i := range rest.Containers {
		keepCompute(&rest.Containers[i].Resources, &old.Spec.Containers[i].Resources)
		if !apiequality.Semantic.DeepEqual(rest.Containers[i], old.Spec.Containers[i]) {
			c.forbid(at, onlyCompute)
		}
	}
	c.initResize(rest.InitContainers, old.Spec.InitContainers, at.Child("initContainers"))
	if len(c.errs) == 0 && !apiequality.Semantic.DeepEqual(*rest, old.Spec) {
		c.forbid(at, onlyCompute)
	}
	return c.errs
}

func (c *check) initResize(is, was []corev1.Container, at *field.Path) {
	for i := range is {
		changed := !apiequality.Semantic.DeepEqual(is[i], was[i])
		keepCompute(&is[i].Resources, &was[i].Resources)
		if !apiequality.Semantic.DeepEqual(is[i], was[i]) {
			c.forbid(at.Index(i), "only cpu and memory resources for init or sidecar containers are mutable")
		}
		if !changed || restartable(&is[i]) {
			continue
		}
		for _, r := range is[i].ResizePolicy {
			if r.RestartPolicy == corev1.RestartContainer {
				c.forbid(at.Index(i), "non-sidecar init containers with a resize policy of RestartContainer cannot be resized")
			}
		}
	}
}

// wholeResize checks the resources of the pod as a whole, and restores them in
// rest.
func (c *check) wholeResize(rest, old *corev1.PodSpec, at *field.Path) {
	set := func(r *corev1.ResourceRequirements) bool { return r != nil && len(r.Requests)+len(r.Limits) > 0 }
	if !set(old.Resources) && !set(rest.Resources) {
		return
	}
	if old.Resources != nil && rest.Resources == nil {
		c.forbid(at.Child("resources"), "pod-level resources cannot be removed")
		return
	}
	was := old.Resources
	if was == nil {
		was = &corev1.ResourceRequirements{}
	}
	if removed(rest.Resources.Requests, was.Requests) {
		c.forbid(at.Child("resources", "requests"), "pod-level resource requests cannot be removed")
	}
	if removed(rest.Resources.Limits, was.Limits) {
		c.forbid(at.Child("resources", "limits"), "pod-level resource limits cannot be removed")
	}
	keepCompute(rest.Resources, was)
	if old.Resources == nil && !set(rest.Resources) && len(rest.Resources.Claims) == 0 {
		rest.Resources = nil
	}
	if !apiequality.Semantic.DeepEqual(rest.Resources, old.Resources) {
		c.forbid(at, "only cpu and memory resources are mutable at pod-level")
	}
}

// sameContainers wants the containers to be the same by name and order.
func (c *check) sameContainers(is, was []corev1.Container, name string, at *field.Path) bool {
	if len(is) != len(was) {
		c.forbid(at.Child(name), name+" may not be added or removed on resize")
		return false
	}
	same := true
	for i := range was {
		if is[i].Name != was[i].Name {
			c.forbid(at.Child(name).Index(i).Child("name"), name+" may not be renamed or reordered on resize")
			same = false
		}
	}
	return same
}

func (c *check) removedResources(is, was []corev1.Container, at *field.Path) {
	for i := range was {
		at := at.Index(i).Child("resources")
		if removed(is[i].Resources.Requests, was[i].Resources.Requests) {
			c.forbid(at.Child("requests"), "resource requests cannot be removed")
		}
		if removed(is[i].Resources.Limits, was[i].Resources.Limits) {
			c.forbid(at.Child("limits"), "resource limits cannot be removed")
		}
	}
}

func removed(is, was corev1.ResourceList) bool {
	for name := range was {
		if _, ok := is[name]; !ok {
			return true
		}
	}
	return false
}

// keepCompute restores cpu and memory, which a resize may change.
func keepCompute(is, was *corev1.ResourceRequirements) {
	keep := func(is, was corev1.ResourceList) corev1.ResourceList {
		if is == nil && was == nil {
			return nil
		}
		out := corev1.ResourceList{}
		for n, q := range is {
			if n != corev1.ResourceCPU && n != corev1.ResourceMemory {
				out[n] = q
			}
		}
		for _, n := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if q, ok := was[n]; ok {
				out[n] = q
			}
		}
		return out
	}
	*is = corev1.ResourceRequirements{Limits: keep(is.Limits, was.Limits), Requests: keep(is.Requests, was.Requests), Claims: is.Claims}
}

// resizable says whether the node of a running pod reports resources.
func resizable(o *corev1.Pod) bool {
	for _, s := range o.Status.ContainerStatuses {
		if s.State.Running != nil {
			return s.Resources != nil
		}
	}
	return true
}
