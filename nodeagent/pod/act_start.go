package pod

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/nodeagent/env"
	"github.com/writ-os/writ/nodeagent/image"
	"github.com/writ-os/writ/nodeagent/runtime"
)

// startError says why a container could not be started, in Kubernetes' words.
type startError struct{ reason, message string }

func (e *startError) Error() string { return e.message }

// startContainer begins an attempt.
func (w *worker) startContainer(ctx context.Context, a Action) {
	t := w.tracked(a.Container)
	t.Op, t.hooked = OpStart, false
	ctx, t.cancel = context.WithCancel(ctx)
	if t.Fault != nil && t.Fault.Reason == ReasonErrImagePull {
		w.eventAbout(a.Container, corev1.EventTypeNormal, eventBackOff, fmt.Sprintf("Back-off pulling image %q", w.spec(a.Container).Image))
	}
	s := starting{w: w, pod: w.pod, spec: w.granted(a.Container), action: a, ips: w.sandbox.IPs}
	t.granted = s.spec.Resources.DeepCopy()
	s.target, s.targetID = w.target(a.Container)
	if t.Current != nil {
		s.keep, s.keepLog = t.Current.ID, t.Current.LogPath
	}
	w.op(func() func() {
		id, err := s.run(ctx)
		return func() { w.started(ctx, t, a, id, err) }
	})
}

// granted is the definition of a container with the resources it was granted.
func (w *worker) granted(name string) *corev1.Container {
	c := w.spec(name)
	if r, ok := w.resized.Allocated[name]; ok && !sameResources(r, c.Resources) {
		c = c.DeepCopy()
		c.Resources.Requests, c.Resources.Limits = r.Requests, r.Limits
	}
	return c
}

// started notes how an attempt has begun.
func (w *worker) started(ctx context.Context, t *tracked, a Action, id string, err error) {
	t.Op = OpNone
	aborted := ctx.Err() != nil
	t.cancel()
	if err == nil {
		t.Fault, t.failures, t.hooked = nil, 0, true
		return
	}
	if aborted {
		return
	}
	se := &startError{ReasonCreateError, err.Error()}
	errors.As(err, &se)
	now := time.Now()
	f := &Fault{Reason: se.reason, Message: se.message, At: now, RetryAt: now.Add(retry(t.failures))}
	switch se.reason {
	case ReasonErrImagePull:
		f.RetryAt = now.Add(min(backoffFirst<<min(t.failures, 8), backoffMax))
	case ReasonRunContainerError, ReasonPostStartError:
		// The back-off of its exit counts, and is never shorter than this.
		if id != "" && t.failures == 0 {
			f.RetryAt = now
		}
	}
	t.failures++
	t.Fault = f
	if se.reason == ReasonPostStartError {
		t.Unhealthy = unhealthyPostStart
	}
	w.p.log.Info("container not started", "pod", w.pod.Namespace+"/"+w.pod.Name, "container", a.Container, "reason", se.reason, "err", err)
}

// starting is one attempt to start a container, away from the actor.
type starting struct {
	w             *worker
	pod           *corev1.Pod
	spec          *corev1.Container
	action        Action
	ips           []string
	keep, keepLog string // the attempt before, which stays
	// target is the container whose processes an ephemeral one shall see.
	target, targetID string
}

func (s *starting) event(eventtype, reason, message string) {
	s.w.eventAbout(s.spec.Name, eventtype, reason, message)
}

// run pulls, creates, starts, and runs postStart. It returns the ID of the
// container as soon as there is one.
func (s *starting) run(ctx context.Context) (string, error) {
	ref, img, err := s.pull(ctx)
	if err != nil {
		return "", err
	}
	spec, err := s.config(ctx, ref, img)
	if err != nil {
		s.event(corev1.EventTypeWarning, eventFailed, "Error: "+err.Error())
		return "", &startError{ReasonConfigError, err.Error()}
	}
	if err := s.w.dropAttempts(ctx, s.spec.Name, s.keep, s.keepLog); err != nil {
		return "", err
	}
	rt := s.w.p.cfg.Runtime
	id, err := rt.Create(ctx, spec)
	if err != nil {
		s.event(corev1.EventTypeWarning, eventFailed, "Error: "+err.Error())
		return "", err
	}
	s.event(corev1.EventTypeNormal, eventCreated, "Container created")
	if err := rt.Start(ctx, id); err != nil {
		s.event(corev1.EventTypeWarning, eventFailed, "Error: "+err.Error())
		return id, &startError{ReasonRunContainerError, err.Error()}
	}
	s.event(corev1.EventTypeNormal, eventStarted, "Container started")
	return id, s.postStart(ctx, id)
}

// postStart runs the hook; the next step kills a container whose hook failed.
func (s *starting) postStart(ctx context.Context, id string) error {
	if s.spec.Lifecycle == nil || s.spec.Lifecycle.PostStart == nil {
		return nil
	}
	h := hook{w: s.w, spec: s.spec, id: id, podIP: firstOf(s.podIPs())}
	if err := h.run(ctx, s.spec.Lifecycle.PostStart); err != nil {
		s.event(corev1.EventTypeWarning, eventPostStart, "PostStartHook failed")
		return &startError{ReasonPostStartError, err.Error()}
	}
	return nil
}

func (s *starting) podIPs() []string {
	if s.pod.Spec.HostNetwork {
		return s.w.p.cfg.HostIPs
	}
	return s.ips
}

// pull makes sure that the image is there.
func (s *starting) pull(ctx context.Context) (string, image.Image, error) {
	cfg := s.w.p.cfg
	ref, err := image.Normalize(s.spec.Image)
	if err != nil {
		msg := fmt.Sprintf("Failed to apply default image tag %q: %v", s.spec.Image, err)
		s.event(corev1.EventTypeWarning, eventInspectFailed, msg)
		return "", image.Image{}, &startError{ReasonInvalidImageName, msg}
	}
	img, present, err := cfg.Images.Image(ctx, ref)
	if err != nil {
		msg := fmt.Sprintf("Failed to inspect image %q: %v", s.spec.Image, err)
		s.event(corev1.EventTypeWarning, eventInspectFailed, msg)
		return "", image.Image{}, &startError{ReasonImageInspectError, msg}
	}
	must, err := image.MustPull(s.policy(), present)
	if err != nil {
		msg := fmt.Sprintf("Container image %q is not present with pull policy of Never", s.spec.Image)
		s.event(corev1.EventTypeWarning, eventNeverPull, msg)
		return "", image.Image{}, &startError{ReasonErrImageNeverPull, msg}
	}
	if !must {
		ok, err := cfg.Puller.Pulls.MayUse(ref, img, func() ([]image.Credentials, error) { return s.credentials(ctx, ref) })
		if err != nil {
			return "", image.Image{}, &startError{ReasonErrImagePull, err.Error()}
		}
		if !ok && s.policy() == corev1.PullNever {
			msg := fmt.Sprintf("Container image %q is present with pull policy of Never but does not have the proper credentials to access the image", s.spec.Image)
			s.event(corev1.EventTypeWarning, eventNeverPull, msg)
			return "", image.Image{}, &startError{ReasonErrImageNeverPull, msg}
		}
		if !ok {
			return s.fetch(ctx, ref) // what is there is not fetched again, but the registry is asked
		}
		s.event(corev1.EventTypeNormal, eventPulled, fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", s.spec.Image))
		return ref, img, nil
	}
	return s.fetch(ctx, ref)
}

func (s *starting) policy() corev1.PullPolicy {
	if image.Registry(s.spec.Image) == "writ.local" {
		return corev1.PullIfNotPresent // there is no registry of that name
	}
	return s.spec.ImagePullPolicy
}

func (s *starting) fetch(ctx context.Context, ref string) (string, image.Image, error) {
	begin := time.Now()
	s.event(corev1.EventTypeNormal, eventPulling, fmt.Sprintf("Pulling image %q", s.spec.Image))
	creds, err := s.credentials(ctx, ref)
	if err == nil {
		var img image.Image
		var took time.Duration
		if img, took, err = s.w.p.cfg.Puller.Pull(ctx, ref, creds); err == nil {
			s.event(corev1.EventTypeNormal, eventPulled, fmt.Sprintf(
				"Successfully pulled image %q in %v (%v including waiting). Image size: %v bytes.",
				s.spec.Image, took.Truncate(time.Millisecond), time.Since(begin).Truncate(time.Millisecond), img.Size))
			return ref, img, nil
		}
	}
	if ctx.Err() != nil {
		return "", image.Image{}, ctx.Err()
	}
	msg := fmt.Sprintf("Failed to pull image %q: %v", s.spec.Image, err)
	s.event(corev1.EventTypeWarning, eventFailed, msg)
	s.event(corev1.EventTypeWarning, eventFailed, "Error: "+ReasonErrImagePull)
	return "", image.Image{}, &startError{ReasonErrImagePull, err.Error()}
}

// credentials finds those of the pod's pull secrets. A secret that is missing
// is left out, as upstream: the image may be public.
func (s *starting) credentials(ctx context.Context, ref string) ([]image.Credentials, error) {
	var secrets []*corev1.Secret
	for _, r := range s.pod.Spec.ImagePullSecrets {
		sec, err := s.w.p.cfg.Objects.Secret(ctx, s.pod.Namespace, r.Name)
		if err != nil {
			s.event(corev1.EventTypeWarning, "FailedToRetrieveImagePullSecret",
				fmt.Sprintf("Unable to retrieve some image pull secrets (%s); attempting to pull the image may not succeed.", r.Name))
			continue
		}
		secrets = append(secrets, sec)
	}
	k, err := image.NewKeyring(secrets)
	if err != nil {
		return nil, err
	}
	return k.For(ref), nil
}

// config resolves all that the container's definition refers to.
func (s *starting) config(ctx context.Context, ref string, img image.Image) (runtime.Spec, error) {
	p, c := s.w.p, s.spec
	if p.cfg.ServicesKnown != nil && !isStatic(s.pod) && !p.cfg.ServicesKnown() {
		// Without KUBERNETES_SERVICE_HOST what finds the server by it never would.
		return runtime.Spec{}, errors.New("services have not yet been read at least once, cannot construct envvars")
	}
	if p.cfg.Dir == "" {
		return s.simulated(ref), nil
	}
	vars, err := env.Make(ctx, s.w.source(s.pod, s.ips), c)
	if err != nil {
		return runtime.Spec{}, err
	}
	lookup := env.Lookup(vars)
	if s.target != "" && s.targetID == "" {
		return runtime.Spec{}, fmt.Errorf("unable to find target container %v", s.target)
	}
	security, err := p.security(s.pod, c, img)
	if err != nil {
		return runtime.Spec{}, err
	}
	mounts, err := p.cfg.Volumes.Mounts(ctx, s.pod, c, func(e string) (string, error) { return env.ExpandStrict(e, lookup) })
	if err != nil {
		return runtime.Spec{}, err
	}
	spec := runtime.Spec{
		PodUID: s.w.uid, PodNamespace: s.pod.Namespace, PodName: s.pod.Name,
		Name: c.Name, Attempt: s.action.Attempt, Backoff: s.action.Backoff,
		Hash: Hash(c), Grace: s.w.graceOf(s.pod),
		Image:      ref,
		Env:        append(env.Strings(vars), "HOSTNAME="+hostnameFor(s.pod, p.cfg.NodeName, p.cfg.DNS.Domain)),
		WorkingDir: c.WorkingDir, Stdin: c.Stdin, StdinOnce: c.StdinOnce, TTY: c.TTY,
		ProcessesOf:  s.targetID,
		Security:     security,
		Resources:    containerResources(s.pod, c, p.cfg.MemoryCapacity),
		CgroupParent: CgroupParent(p.cfg.CgroupRoot, s.pod),
	}
	for _, a := range c.Command {
		spec.Command = append(spec.Command, env.Expand(a, lookup))
	}
	for _, a := range c.Args {
		spec.Args = append(spec.Args, env.Expand(a, lookup))
	}
	spec.LogPath = p.LogPath(s.pod, c.Name, s.action.Attempt)
	spec.Mounts = append(mounts, s.ownMounts(mounts)...)
	return spec, s.terminationLog(&spec)
}

// simulated is a container of a simulated node: nothing of it is real but its
// identity.
func (s *starting) simulated(ref string) runtime.Spec {
	return runtime.Spec{
		PodUID: s.w.uid, PodNamespace: s.pod.Namespace, PodName: s.pod.Name,
		Name: s.spec.Name, Attempt: s.action.Attempt, Backoff: s.action.Backoff,
		Hash: Hash(s.spec), Grace: s.w.graceOf(s.pod), Image: ref,
	}
}

// terminationLog gives the container a file for its last words.
func (s *starting) terminationLog(spec *runtime.Spec) error {
	path := s.spec.TerminationMessagePath
	if path == "" {
		path = corev1.TerminationMessagePathDefault
	}
	dir := filepath.Join(s.w.p.podDir(s.w.uid), "containers", s.spec.Name)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("make termination log: %w", err)
	}
	file := filepath.Join(dir, fmt.Sprint(s.action.Attempt))
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		return fmt.Errorf("make termination log: %w", err)
	}
	if err := os.Chmod(file, 0o666); err != nil { // past the umask
		return fmt.Errorf("make termination log: %w", err)
	}
	spec.Terminated, spec.TerminatedHost = path, file
	spec.Mounts = append(spec.Mounts, runtime.Mount{HostPath: file, ContainerPath: path})
	return nil
}

func firstOf(ss []string) string {
	if len(ss) == 0 {
		return ""
	}
	return ss[0]
}
