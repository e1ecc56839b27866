package pod

import (
	"path"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"github.com/writ-os/writ/nodeagent/cgroup"
	"github.com/writ-os/writ/nodeagent/runtime"
)

// QOS is the quality of service that a pod's requests and limits give it.
func QOS(pod *corev1.Pod) corev1.PodQOSClass {
	guaranteed, some := true, false
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				req, hasReq := list[i].Resources.Requests[name]
				lim, hasLim := list[i].Resources.Limits[name]
				hasReq, hasLim = hasReq && !req.IsZero(), hasLim && !lim.IsZero()
				some = some || hasReq || hasLim
				if !hasLim || (hasReq && req.Cmp(lim) != 0) {
					guaranteed = false
				}
			}
		}
	}
	switch {
	case !some:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}

// CgroupParent is the cgroup of a pod below root ("/kubepods").
func CgroupParent(root string, pod *corev1.Pod) string {
	switch QOS(pod) {
	case corev1.PodQOSBurstable:
		root = path.Join(root, "burstable")
	case corev1.PodQOSBestEffort:
		root = path.Join(root, "besteffort")
	}
	return path.Join(root, "pod"+string(pod.UID))
}

const (
	cfsPeriod = 100000 // microseconds
	minQuota  = 1000
	minShares = 2
	maxShares = 262144
)

func shares(milliCPU int64) uint64 {
	return uint64(min(max(milliCPU*1024/1000, minShares), maxShares))
}

func quota(milliCPU int64) int64 { return max(milliCPU*cfsPeriod/1000, minQuota) }

// podResources are the limits of a pod's own cgroup: those of its containers
// together, where all of them have one.
func podResources(pod *corev1.Pod) cgroup.Resources {
	req := resource.PodRequests(pod, resource.PodResourcesOptions{})
	cpuLimited, memoryLimited := true, true
	lim := resource.PodLimits(pod, resource.PodResourcesOptions{
		ContainerFn: func(res corev1.ResourceList, _ resource.ContainerType) {
			cpuLimited = cpuLimited && !res.Cpu().IsZero()
			memoryLimited = memoryLimited && !res.Memory().IsZero()
		},
	})
	r := cgroup.Resources{CPUShares: shares(req.Cpu().MilliValue())}
	if cpuLimited {
		r.CPUQuota, r.CPUPeriod = quota(lim.Cpu().MilliValue()), cfsPeriod
	}
	if memoryLimited {
		r.Memory = lim.Memory().Value()
	}
	return r
}

// containerResources are the limits of one container.
func containerResources(pod *corev1.Pod, c *corev1.Container, memoryCapacity int64) runtime.Resources {
	cpu := c.Resources.Requests.Cpu()
	if cpu.IsZero() {
		cpu = c.Resources.Limits.Cpu()
	}
	r := runtime.Resources{
		CPUShares:   shares(cpu.MilliValue()),
		Memory:      c.Resources.Limits.Memory().Value(),
		OOMScoreAdj: oomScoreAdj(pod, c, memoryCapacity),
	}
	if lim := c.Resources.Limits.Cpu(); !lim.IsZero() {
		r.CPUQuota, r.CPUPeriod = quota(lim.MilliValue()), cfsPeriod
	}
	return r
}

const systemNodeCritical = 2000001000 // the priority of system-node-critical

// oomScoreAdj makes the kernel prefer processes that use more than they asked
// for. The figures are upstream's.
func oomScoreAdj(pod *corev1.Pod, c *corev1.Container, capacity int64) int {
	if pod.Spec.Priority != nil && *pod.Spec.Priority >= systemNodeCritical {
		return -997
	}
	switch QOS(pod) {
	case corev1.PodQOSGuaranteed:
		return -997
	case corev1.PodQOSBestEffort:
		return 1000
	}
	if capacity == 0 {
		return 999
	}
	score := 1000 - 1000*c.Resources.Requests.Memory().Value()/capacity
	if sidecar(c) {
		lowest := int64(-1)
		for i := range pod.Spec.Containers {
			if m := pod.Spec.Containers[i].Resources.Requests.Memory().Value(); lowest < 0 || m < lowest {
				lowest = m
			}
		}
		score = min(score, 1000-1000*lowest/capacity)
	}
	return int(min(max(score, 3), 999))
}
