package pod

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"github.com/writ-os/writ/nodeagent/cgroup"
	"github.com/writ-os/writ/nodeagent/runtime"
)

// resizeAgain is when a resize that was put off or has failed is tried again.
const resizeAgain = 10 * time.Second

// resize grants what the spec asks for, if the node has it, and begins to apply
// what was granted. It returns when to come back.
func (w *worker) resize(ctx context.Context) time.Time {
	if !w.prepared || w.released || w.pod.DeletionTimestamp != nil || terminal(w.last.Phase) {
		return time.Time{}
	}
	w.followResources()
	again := time.Time{}
	if w.resized.Pending = nil; w.resized.asks(w.pod) {
		w.resized.Pending = grant(w.pod, w.p.cfg.Allocatable, w.p.requestsBeside(w.uid))
		if w.resized.Pending != nil {
			again = time.Now().Add(resizeAgain)
		} else {
			for _, c := range resizable(w.pod) {
				w.resized.Allocated[c.Name] = *c.Resources.DeepCopy()
			}
			w.resizeAt, w.resized.Failed = time.Time{}, ""
		}
	}
	if w.resizing || !w.resized.progress() {
		return again
	}
	if time.Now().Before(w.resizeAt) {
		return earliest(again, w.resizeAt)
	}
	w.apply(ctx)
	return again
}

// followResources notes what containers that are new run with, and forgets what
// those that have ended did.
func (w *worker) followResources() {
	if w.resized.Allocated == nil {
		w.resized.Allocated, w.resized.Applied = map[string]corev1.ResourceRequirements{}, map[string]corev1.ResourceRequirements{}
	}
	for _, c := range resizable(w.pod) {
		t := w.containers[c.Name]
		if _, ok := w.resized.Allocated[c.Name]; !ok {
			w.resized.Allocated[c.Name] = w.grantedBefore(c)
		}
		switch {
		case t == nil || !running(&t.Container):
			delete(w.resized.Applied, c.Name)
			delete(w.measured, c.Name)
		case w.measured[c.Name] != t.Current.ID:
			// It was started with what was granted then.
			w.resized.Applied[c.Name] = w.resized.Allocated[c.Name]
			if t.granted != nil {
				w.resized.Applied[c.Name] = *t.granted
			}
			w.measured[c.Name] = t.Current.ID
		}
	}
}

// grantedBefore is what a container has that ran before this process: what its
// status said then.
func (w *worker) grantedBefore(c *corev1.Container) corev1.ResourceRequirements {
	cs := find(w.last.ContainerStatuses, c.Name)
	if cs == nil {
		cs = find(w.last.InitContainerStatuses, c.Name)
	}
	if t := w.containers[c.Name]; cs == nil || cs.Resources == nil || t == nil || !running(&t.Container) || cs.ContainerID != RuntimeName+"://"+t.Current.ID {
		return *c.Resources.DeepCopy()
	}
	return corev1.ResourceRequirements{Requests: cs.AllocatedResources, Limits: cs.Resources.Limits}
}

// requestsBeside are the requests of all pods but one.
func (p *Pods) requestsBeside(uid string) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for id, other := range p.all() {
		pod := other.snapshot()
		if id == uid || terminal(pod.Status.Phase) {
			continue
		}
		for name, q := range resource.PodRequests(pod, resource.PodResourcesOptions{UseStatusResources: true}) {
			have := sum[name]
			have.Add(q)
			sum[name] = have
		}
	}
	return sum
}

// update is a container whose limits change while it runs.
type update struct {
	name, id string
	to       corev1.ResourceRequirements
	limits   runtime.Resources
}

// apply brings running containers to what they were granted: at once, or by a
// new start where their policy wants that.
func (w *worker) apply(ctx context.Context) {
	pod := w.resized.allocated(w.pod)
	var live []update
	for _, c := range resizable(pod) {
		from, ok := w.resized.Applied[c.Name]
		to := w.resized.Allocated[c.Name]
		if !ok || sameResources(from, to) {
			continue
		}
		t := w.containers[c.Name]
		if restarts(c, from, to) {
			t.Unhealthy = unhealthyResize
			continue
		}
		live = append(live, update{c.Name, t.Current.ID, to, containerResources(pod, c, w.p.cfg.MemoryCapacity)})
	}
	if len(live) == 0 {
		return
	}
	w.resizing = true
	group, limits := CgroupParent(w.p.cfg.CgroupRoot, pod), podResources(pod)
	w.op(func() func() {
		err := w.p.update(ctx, group, limits, live)
		return func() {
			w.resizing = false
			if err != nil {
				w.resized.Failed, w.resizeAt = err.Error(), time.Now().Add(resizeAgain)
				return
			}
			applied := maps.Clone(w.resized.Applied) // what was shown must not change
			for _, u := range live {
				if w.measured[u.name] == u.id {
					applied[u.name] = u.to
				}
			}
			w.resized.Applied, w.resized.Failed = applied, ""
		}
	})
}

// update changes limits: the pod's own give way first, and close in last.
func (p *Pods) update(ctx context.Context, group string, limits cgroup.Resources, live []update) error {
	for _, u := range live {
		if u.limits.Memory == 0 {
			continue
		}
		if st, err := p.cfg.Runtime.Stats(ctx, u.id); err == nil && st.Memory > uint64(u.limits.Memory) {
			return fmt.Errorf("attempting to set container %q memory limit (%d) below current usage (%d)", u.name, u.limits.Memory, st.Memory)
		}
	}
	if p.cfg.Cgroups != nil {
		// Wide enough for the old and the new limits of its containers.
		wide := limits
		wide.CPUQuota, wide.Memory = -1, -1
		if err := p.cfg.Cgroups.Ensure(group, wide); err != nil {
			return err
		}
	}
	for _, u := range live {
		if err := p.cfg.Runtime.Update(ctx, u.id, u.limits); err != nil {
			return err
		}
	}
	if p.cfg.Cgroups != nil {
		return p.cfg.Cgroups.Ensure(group, limits)
	}
	return nil
}
