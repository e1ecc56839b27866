package defaults

import (
	"reflect"
	"strings"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// setPod sets what a pod has and its template has not: a template keeps what
// its author left out, so that its hash stays the same.
func setPod(o *corev1.Pod) {
	requestsFromLimits(o.Spec.Containers)
	requestsFromLimits(o.Spec.InitContainers)
	podResources(o)
	if o.Spec.EnableServiceLinks == nil {
		o.Spec.EnableServiceLinks = new(corev1.DefaultEnableServiceLinks)
	}
	if o.Spec.HostNetwork {
		hostPorts(o.Spec.Containers)
		hostPorts(o.Spec.InitContainers)
	}
}

// requestsFromLimits asks for as much as may be used at most.
func requestsFromLimits(containers []corev1.Container) {
	for i := range containers {
		r := &containers[i].Resources
		if r.Limits == nil {
			continue
		}
		if r.Requests == nil {
			r.Requests = corev1.ResourceList{}
		}
		fill(r.Requests, r.Limits)
	}
}

// fill copies the entries that are missing.
func fill(to, from corev1.ResourceList) {
	for name, q := range from {
		if _, ok := to[name]; !ok {
			to[name] = q.DeepCopy()
		}
	}
}

// podResources derives the requests and limits of a whole pod that has some of
// its own: limits of huge pages from the containers, requests from those of the
// containers, then from the limits.
func podResources(o *corev1.Pod) {
	r := o.Spec.Resources
	if r == nil {
		return
	}
	if len(r.Limits) > 0 || len(r.Requests) > 0 {
		limits := corev1.ResourceList{}
		for name, q := range resourcehelper.AggregateContainerLimits(o, resourcehelper.PodResourcesOptions{}) {
			if _, asked := r.Requests[name]; hugePage(name) && !asked {
				limits[name] = q
			}
		}
		r.Limits = merge(r.Limits, limits)
	}
	if len(r.Limits) > 0 {
		requests := corev1.ResourceList{}
		for name, q := range resourcehelper.AggregateContainerRequests(o, resourcehelper.PodResourcesOptions{}) {
			if resourcehelper.IsSupportedPodLevelResource(name) && !hugePage(name) {
				requests[name] = q
			}
		}
		for name, q := range r.Limits {
			if _, ok := requests[name]; !ok && resourcehelper.IsSupportedPodLevelResource(name) {
				requests[name] = q
			}
		}
		r.Requests = merge(r.Requests, requests)
	}
}

// merge fills a list that may be nil and stays nil if nothing is added.
func merge(to, from corev1.ResourceList) corev1.ResourceList {
	if to == nil && len(from) > 0 {
		to = corev1.ResourceList{}
	}
	fill(to, from)
	return to
}

func hugePage(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// hostPorts opens the ports of containers that use the network of the node.
func hostPorts(containers []corev1.Container) {
	for i := range containers {
		for j := range containers[i].Ports {
			if p := &containers[i].Ports[j]; p.HostPort == 0 {
				p.HostPort = p.ContainerPort
			}
		}
	}
}

func setContainer(o *corev1.Container) { pullPolicy(&o.ImagePullPolicy, o.Image) }

func setEphemeralContainerCommon(o *corev1.EphemeralContainerCommon) {
	pullPolicy(&o.ImagePullPolicy, o.Image)
}

// setVolume gives a volume that says nothing an empty directory.
func setVolume(o *corev1.Volume) {
	if reflect.ValueOf(o.VolumeSource).IsZero() {
		o.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	if o.Image != nil {
		pullPolicy(&o.Image.PullPolicy, o.Image.Reference)
	}
}

// pullPolicy pulls images that move every time, and others once.
func pullPolicy(p *corev1.PullPolicy, image string) {
	if *p != "" {
		return
	}
	*p = corev1.PullIfNotPresent
	if latest(image) {
		*p = corev1.PullAlways
	}
}

// latest says whether an image reference means the tag latest: by name, or
// because it has neither tag nor digest.
func latest(image string) bool {
	ref, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return false
	}
	if t, ok := ref.(reference.Tagged); ok {
		return t.Tag() == "latest"
	}
	return reference.IsNameOnly(ref)
}

// setResourceList rounds amounts up to thousandths, as they are stored.
func setResourceList(m corev1.ResourceList) {
	for name, q := range m {
		if !q.RoundUp(resource.Milli) {
			m[name] = q
		}
	}
}

// setNodeStatus takes what a node has for what it can give.
func setNodeStatus(o *corev1.NodeStatus) {
	if o.Allocatable == nil && o.Capacity != nil {
		o.Allocatable = o.Capacity.DeepCopy()
	}
}
