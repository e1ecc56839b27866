package pod

import (
	"path"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"github.com/writ-os/writ/nodeagent/cgroup"
)

// weighClasses gives the cgroups of the quality-of-service classes their share
// of the CPU, as the kubelet: BestEffort the least that there is, Burstable
// what its pods ask for together.
func (p *Pods) weighClasses() error {
	burstable := int64(0)
	for _, w := range p.all() {
		w.mu.Lock()
		pod := w.desired
		w.mu.Unlock()
		if QOS(pod) == corev1.PodQOSBurstable && !terminal(pod.Status.Phase) {
			req := resource.PodRequests(pod, resource.PodResourcesOptions{})
			burstable += req.Cpu().MilliValue()
		}
	}
	if err := p.cfg.Cgroups.Ensure(path.Join(p.cfg.CgroupRoot, "besteffort"), cgroup.Resources{CPUShares: minShares}); err != nil {
		return err
	}
	return p.cfg.Cgroups.Ensure(path.Join(p.cfg.CgroupRoot, "burstable"), cgroup.Resources{CPUShares: shares(burstable)})
}
