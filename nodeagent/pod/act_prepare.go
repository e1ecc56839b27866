package pod

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/nodeagent/admit"
	"github.com/writ-os/writ/nodeagent/env"
	"github.com/writ-os/writ/nodeagent/image"
	"github.com/writ-os/writ/nodeagent/network"
	"github.com/writ-os/writ/nodeagent/runtime"
	"github.com/writ-os/writ/nodeagent/volume"
)

// retry is the pause before a failed action is tried again: 200 ms doubling to
// 30 s.
func retry(failures int) time.Duration {
	return min(200*time.Millisecond<<min(failures, 10), 30*time.Second)
}

// prepareError keeps which part failed, for the event.
type prepareError struct {
	event string
	err   error
}

func (e *prepareError) Error() string { return e.err.Error() }
func (e *prepareError) Unwrap() error { return e.err }

// prepare sets up what the pod's containers share. Network, volumes and cgroup
// do not depend on each other.
func (w *worker) prepare(ctx context.Context) {
	w.busy = true
	pod := w.resized.allocated(w.pod)
	if w.sandbox.Since.IsZero() && len(w.containers) > 0 {
		w.event(corev1.EventTypeNormal, eventSandboxChange, "Pod sandbox changed, it will be killed and re-created.")
	}
	fresh := len(w.containers) == 0 && (w.last.Phase == "" || w.last.Phase == corev1.PodPending)
	w.op(func() func() {
		var refusal *admit.Refusal
		var err error
		if fresh && w.p.cfg.Admit != nil { // what runs already is left to run
			refusal, err = w.p.cfg.Admit(ctx, pod)
			err = failed(eventSandbox, "admit the pod", err)
		}
		var att network.Attachment
		var next time.Time
		if err == nil && refusal == nil {
			att, next, err = w.makeReady(ctx, pod)
		}
		return func() {
			w.busy = false
			w.settle(err, pod)
			if refusal != nil {
				w.event(corev1.EventTypeWarning, refusal.Reason, refusal.Message)
				w.kill(Verdict(*refusal))
				return
			}
			if err == nil {
				w.prepared, w.refreshAt = true, next
				w.sandbox.IPs = addresses(att)
			}
		}
	})
}

func (w *worker) makeReady(ctx context.Context, pod *corev1.Pod) (network.Attachment, time.Time, error) {
	var att network.Attachment
	var next time.Time
	var metadata *bool
	if !pod.Spec.HostNetwork && w.p.cfg.Metadata != nil {
		metadata = w.p.cfg.Metadata(ctx, pod.Namespace)
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		att, err = w.p.cfg.Network.Attach(gctx, network.Pod{
			UID: w.uid, Namespace: pod.Namespace, Name: pod.Name, HostNetwork: pod.Spec.HostNetwork, Metadata: metadata,
		})
		return failed(eventSandbox, "attach to the network", err)
	})
	g.Go(func() (err error) {
		if w.p.cfg.Volumes == nil {
			return nil
		}
		if next, err = w.p.cfg.Volumes.Mount(gctx, pod, w.facts(pod)); err != nil {
			return &prepareError{eventFailedMount, err}
		}
		return nil
	})
	group := CgroupParent(w.p.cfg.CgroupRoot, pod)
	g.Go(func() error {
		if w.p.cfg.Cgroups == nil {
			return nil
		}
		if err := w.p.weighClasses(); err != nil {
			return failed(eventSandbox, "weigh the classes of pods", err)
		}
		return failed(eventSandbox, "limit the pod", w.p.cfg.Cgroups.Ensure(group, podResources(pod)))
	})
	if err := g.Wait(); err != nil {
		return att, next, err
	}
	if err := w.writeHosts(pod, addresses(att)); err != nil {
		return att, next, failed(eventSandbox, "write hosts file", err)
	}
	spec := sandboxSpec(pod, att, group, w.p.cfg.DNS.Domain)
	if err := checkHostname(spec.Hostname); err != nil {
		return att, next, failed(eventSandbox, "name the pod", err)
	}
	if spec.ShareProcesses {
		if err := w.p.pauseImage(ctx, spec.PauseImage); err != nil {
			return att, next, failed(eventSandbox, "get sandbox image", err)
		}
	}
	err := w.p.cfg.Runtime.EnsureSandbox(ctx, spec)
	return att, next, failed(eventSandbox, "make sandbox", err)
}

// pauseImage makes sure of the image whose process the others of a pod share
// their PID namespace with.
func (p *Pods) pauseImage(ctx context.Context, ref string) error {
	_, there, err := p.cfg.Images.Image(ctx, ref)
	if err == nil && !there {
		_, _, err = p.cfg.Puller.Pull(ctx, ref, nil)
	}
	return err
}

func failed(event, doing string, err error) error {
	if err == nil {
		return nil
	}
	return &prepareError{event, fmt.Errorf("Failed to create pod sandbox: %s: %w", doing, err)} //nolint:staticcheck // the text of the event
}

func addresses(a network.Attachment) []string {
	var out []string
	for _, ip := range a.IPs {
		out = append(out, ip.String())
	}
	return out
}

func sandboxSpec(pod *corev1.Pod, att network.Attachment, group, domain string) runtime.SandboxSpec {
	s := runtime.SandboxSpec{
		PodUID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name,
		Hostname: fullHostname(pod, domain), NetNS: att.NetNS,
		HostIPC: pod.Spec.HostIPC, HostPID: pod.Spec.HostPID,
		ShareProcesses: pod.Spec.ShareProcessNamespace != nil && *pod.Spec.ShareProcessNamespace && !pod.Spec.HostPID,
		PauseImage:     image.Pause,
		CgroupParent:   group,
	}
	if sc := pod.Spec.SecurityContext; sc != nil && len(sc.Sysctls) > 0 {
		s.Sysctls = map[string]string{}
		for _, c := range sc.Sysctls {
			s.Sysctls[c.Name] = c.Value
		}
	}
	return s
}

// settle notes the outcome of an action on the whole pod.
func (w *worker) settle(err error, pod *corev1.Pod) {
	if err == nil {
		w.fault, w.failures = nil, 0
		return
	}
	if errors.Is(err, context.Canceled) {
		return
	}
	reason := eventFailedKill
	var pe *prepareError
	if errors.As(err, &pe) {
		reason = pe.event
	}
	now := time.Now()
	w.fault = &Fault{Reason: reason, Message: err.Error(), At: now, RetryAt: now.Add(retry(w.failures))}
	w.failures++
	w.event(corev1.EventTypeWarning, reason, err.Error())
	w.p.log.Warn("pod action", "pod", pod.Namespace+"/"+pod.Name, "reason", reason, "err", err)
}

// facts are what the pod's files may tell.
func (w *worker) facts(pod *corev1.Pod) volume.Facts {
	src := w.source(pod, nil)
	return volume.Facts{
		Field: func(_ *corev1.Pod, path string) (string, error) { return env.Field(src, path) },
		Resource: func(_ *corev1.Pod, ref *corev1.ResourceFieldSelector, container string) (string, error) {
			return env.Resource(src, ref, container)
		},
	}
}

// source is what the pod's variables are made from.
func (w *worker) source(pod *corev1.Pod, ips []string) env.Source {
	if pod.Spec.HostNetwork {
		ips = w.p.cfg.HostIPs
	}
	s := env.Source{
		Pod: pod, HostIPs: w.p.cfg.HostIPs, PodIPs: ips,
		Objects: w.p.cfg.Objects, Allocatable: w.p.cfg.Allocatable,
	}
	if w.p.cfg.Services != nil {
		s.Services = w.p.cfg.Services(pod.Namespace)
		if pod.Namespace != corev1.NamespaceDefault {
			s.Services = append(s.Services[:len(s.Services):len(s.Services)], w.p.cfg.Services(corev1.NamespaceDefault)...)
		}
	}
	return s
}

// refreshVolumes brings the files of a prepared pod up to date, when their
// objects have changed or a token is due. It returns when to look again; zero
// when there is nothing to bring up to date, or the end of an action will tell.
func (w *worker) refreshVolumes(ctx context.Context) time.Time {
	if w.p.cfg.Volumes == nil || !w.prepared || w.released || w.busy {
		return time.Time{}
	}
	due := !w.refreshAt.IsZero() && !time.Now().Before(w.refreshAt)
	w.mu.Lock()
	outdated := w.outdated
	w.outdated = false
	w.mu.Unlock()
	if !outdated && !due {
		return w.refreshAt
	}
	w.busy = true
	pod := w.pod
	w.op(func() func() {
		next, err := w.p.cfg.Volumes.Mount(ctx, pod, w.facts(pod))
		return func() {
			w.busy, w.refreshAt = false, next
			if err != nil && ctx.Err() == nil {
				w.event(corev1.EventTypeWarning, eventFailedMount, err.Error())
				w.refreshAt = time.Now().Add(30 * time.Second)
			}
		}
	})
	return time.Time{}
}

// release takes down what the pod's containers shared. Their records and logs
// stay until the server has forgotten the pod.
func (w *worker) release(ctx context.Context) {
	// Its volumes are going: nothing brings them up to date any more.
	w.busy, w.prepared, w.refreshAt = true, false, time.Time{}
	pod := w.pod
	w.op(func() func() {
		err := w.tearDown(ctx, pod)
		return func() {
			w.busy = false
			w.settle(err, pod)
			w.released = w.released || err == nil
		}
	})
}

func (w *worker) tearDown(ctx context.Context, pod *corev1.Pod) error {
	if err := w.p.cfg.Runtime.RemoveSandbox(ctx, w.uid); err != nil {
		return err
	}
	if err := w.p.cfg.Network.Detach(ctx, w.uid); err != nil {
		return fmt.Errorf("detach from the network: %w", err)
	}
	if w.p.cfg.Volumes != nil {
		if err := w.p.cfg.Volumes.Unmount(ctx, w.uid); err != nil {
			return err
		}
	}
	if w.p.cfg.Cgroups == nil {
		return nil
	}
	return w.p.cfg.Cgroups.Remove(CgroupParent(w.p.cfg.CgroupRoot, pod))
}
