package pod

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/nodeagent/runtime"
	"github.com/writ-os/writ/nodeagent/volume"
)

// faultShown is how long the reason of a failed pull is shown before
// ImagePullBackOff takes its place.
const faultShown = 2 * time.Second

// RuntimeName begins container IDs in a status.
const RuntimeName = "containerd"

// status says what the server shall know of the pod.
func (s *step) status() corev1.PodStatus {
	pod, last := s.Pod, s.Last
	st := corev1.PodStatus{
		ObservedGeneration:    pod.Generation,
		QOSClass:              last.QOSClass,
		StartTime:             last.StartTime,
		NominatedNodeName:     last.NominatedNodeName,
		ResourceClaimStatuses: last.ResourceClaimStatuses,
		Reason:                last.Reason,
		Message:               last.Message,
	}
	if st.QOSClass == "" {
		st.QOSClass = QOS(pod)
	}
	if st.StartTime == nil {
		st.StartTime = new(stamp(s.Now))
	}
	s.addresses(&st)
	st.InitContainerStatuses = s.containerStatuses(pod.Spec.InitContainers, last.InitContainerStatuses, true)
	st.ContainerStatuses = s.containerStatuses(pod.Spec.Containers, last.ContainerStatuses, false)
	st.EphemeralContainerStatuses = s.ephemeralStatuses()
	s.setPhase(&st)
	s.conditions(&st)
	return st
}

func (s *step) addresses(st *corev1.PodStatus) {
	for _, ip := range s.HostIPs {
		st.HostIPs = append(st.HostIPs, corev1.HostIP{IP: ip})
	}
	if len(s.HostIPs) > 0 {
		st.HostIP = s.HostIPs[0]
	}
	ips := s.Sandbox.IPs
	if s.Pod.Spec.HostNetwork {
		ips = s.HostIPs
	}
	for _, ip := range ips {
		st.PodIPs = append(st.PodIPs, corev1.PodIP{IP: ip})
	}
	if len(st.PodIPs) == 0 {
		st.PodIPs = s.Last.PodIPs
	}
	if len(st.PodIPs) > 0 {
		st.PodIP = st.PodIPs[0].IP
	}
}

// setPhase computes the phase. It never leaves a terminal one, and enters one
// only when nothing runs any more.
func (s *step) setPhase(st *corev1.PodStatus) {
	if terminal(s.Last.Phase) {
		st.Phase = s.Last.Phase
		return
	}
	st.Phase = phase(s.Pod, st)
	if s.Killed != nil {
		st.Phase, st.Reason, st.Message = corev1.PodFailed, s.Killed.Reason, s.Killed.Message
	} else if s.Pod.DeletionTimestamp != nil && !terminal(st.Phase) && !s.anyAlive() {
		// All containers of a deleted pod have ended: the pod is over, with a
		// container that never ran counting as a failure.
		st.Phase = endPhase(st)
	}
	s.over = terminal(st.Phase)
	if s.over && s.anyAlive() {
		if st.Phase = s.Last.Phase; st.Phase == "" {
			st.Phase = corev1.PodPending
		}
		st.Reason, st.Message = s.Last.Reason, s.Last.Message
	}
}

func (s *step) anyAlive() bool {
	for _, name := range s.names() {
		if c := s.container(name); running(c) || c.Op != OpNone {
			return true
		}
	}
	return false
}

// endPhase is the phase of a pod that was stopped from outside.
func endPhase(st *corev1.PodStatus) corev1.PodPhase {
	for _, c := range slices.Concat(st.InitContainerStatuses, st.ContainerStatuses) {
		if c.State.Terminated == nil || c.State.Terminated.ExitCode != 0 {
			return corev1.PodFailed
		}
	}
	return corev1.PodSucceeded
}

func (s *step) containerStatuses(specs []corev1.Container, last []corev1.ContainerStatus, init bool) []corev1.ContainerStatus {
	if len(specs) == 0 {
		return nil
	}
	out := make([]corev1.ContainerStatus, 0, len(specs))
	for i := range specs {
		out = append(out, s.containerStatus(&specs[i], find(last, specs[i].Name), init))
	}
	return out
}

func find(list []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

func (s *step) containerStatus(spec *corev1.Container, last *corev1.ContainerStatus, init bool) corev1.ContainerStatus {
	c := s.container(spec.Name)
	st := corev1.ContainerStatus{Name: spec.Name, Image: spec.Image, Started: new(bool)}
	s.resources(spec, &st)
	mountsOf(spec, &st)
	if c.Current == nil {
		return s.neverRan(st, spec, c, last)
	}
	st.RestartCount = int32(c.Current.Attempt)
	st.Image, st.ImageID = c.Current.Image, c.Current.ImageID
	st.ContainerID = RuntimeName + "://" + c.Current.ID
	if c.Previous != nil {
		st.LastTerminationState.Terminated = terminated(c.Previous, c.PreviousMessage)
	} else if last != nil && last.ContainerID != st.ContainerID && last.State.Terminated != nil {
		st.LastTerminationState = last.State
	} else if last != nil {
		st.LastTerminationState = last.LastTerminationState
	}
	switch c.Current.State {
	case runtime.Created:
		st.State.Waiting = s.waiting(spec, c)
	case runtime.Running:
		st.State.Running = &corev1.ContainerStateRunning{StartedAt: stamp(c.Current.StartedAt)}
		*st.Started = c.Started
		st.Ready = c.Started && c.Ready && (!init || sidecar(spec))
	default:
		t := terminated(c.Current, c.Message)
		if w := s.again(spec, c, init); w != nil {
			st.State.Waiting, st.LastTerminationState.Terminated = w, t
		} else {
			st.State.Terminated = t
			st.Ready = init && !sidecar(spec) && t.ExitCode == 0
		}
	}
	return st
}

// neverRan is the status of a container without an attempt that the runtime
// knows. Where the server knew one, that has ended unseen.
func (s *step) neverRan(st corev1.ContainerStatus, spec *corev1.Container, c *Container, last *corev1.ContainerStatus) corev1.ContainerStatus {
	if last == nil {
		st.State.Waiting = s.waiting(spec, c)
		return st
	}
	st.RestartCount, st.LastTerminationState = last.RestartCount, last.LastTerminationState
	switch {
	case last.State.Terminated != nil:
		st.State, st.Ready = last.State, last.Ready
		st.ContainerID, st.ImageID = last.ContainerID, last.ImageID
	case last.State.Running != nil && s.ending():
		st.ContainerID, st.ImageID = last.ContainerID, last.ImageID
		st.State.Terminated = &corev1.ContainerStateTerminated{
			Reason: runtime.ReasonUnknown, ExitCode: 137,
			Message: "The container could not be located when the pod was terminated",
		}
	case last.State.Running != nil:
		st.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
			Reason: runtime.ReasonUnknown, ExitCode: 137,
			Message: "The container could not be located when the pod was deleted.  The container used to be Running",
		}
		st.State.Waiting = s.waiting(spec, c)
	default:
		st.State.Waiting = s.waiting(spec, c)
	}
	return st
}

// waiting says what a container that has not run waits for.
func (s *step) waiting(spec *corev1.Container, c *Container) *corev1.ContainerStateWaiting {
	if f := c.Fault; f != nil {
		return s.faulty(spec, f)
	}
	if len(s.Pod.Spec.InitContainers) > 0 {
		return &corev1.ContainerStateWaiting{Reason: "PodInitializing"}
	}
	return &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
}

func (s *step) faulty(spec *corev1.Container, f *Fault) *corev1.ContainerStateWaiting {
	if f.Reason == ReasonErrImagePull && s.Now.Sub(f.At) >= faultShown {
		return &corev1.ContainerStateWaiting{Reason: ReasonImagePullBackOff, Message: pullBackOffMessage(spec.Image, f)}
	}
	return &corev1.ContainerStateWaiting{Reason: f.Reason, Message: f.Message}
}

// again says what a container that has ended waits for, if it will run again
// and not at once.
func (s *step) again(spec *corev1.Container, c *Container, init bool) *corev1.ContainerStateWaiting {
	rule := restartRule(shouldRestart)
	switch {
	case init && sidecar(spec):
		rule = always
	case init:
		rule = shouldRestartInit
	}
	if s.ending() || !rule(s.Pod, spec, c.Current.ExitCode) {
		return nil
	}
	if f := c.Fault; f != nil {
		return s.faulty(spec, f)
	}
	wait, _ := backoff(c.Current)
	if wait > 0 && s.Now.Before(c.Current.FinishedAt.Add(wait)) {
		return &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: backOffMessage(s.Pod, spec.Name, wait)}
	}
	if c.Current.Reason == runtime.ReasonStartError {
		return &corev1.ContainerStateWaiting{Reason: ReasonRunContainerError, Message: c.Current.Message}
	}
	return nil
}

func terminated(c *runtime.Container, message string) *corev1.ContainerStateTerminated {
	if message == "" {
		message = c.Message
	}
	started := c.StartedAt
	if started.IsZero() {
		started = time.Unix(0, 0) // as upstream shows what never started
	}
	return &corev1.ContainerStateTerminated{
		ExitCode: int32(c.ExitCode), Reason: c.Reason, Message: message,
		StartedAt: stamp(started), FinishedAt: stamp(c.FinishedAt),
		ContainerID: RuntimeName + "://" + c.ID,
	}
}

// stamp is a time as the API keeps it.
func stamp(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }

func mountsOf(spec *corev1.Container, st *corev1.ContainerStatus) {
	for _, m := range spec.VolumeMounts {
		ms := corev1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly}
		if m.ReadOnly {
			mode := corev1.RecursiveReadOnlyDisabled
			if r := m.RecursiveReadOnly; r != nil && (*r == corev1.RecursiveReadOnlyEnabled || *r == corev1.RecursiveReadOnlyIfPossible && volume.RecursiveReadOnly()) {
				mode = corev1.RecursiveReadOnlyEnabled
			}
			ms.RecursiveReadOnly = &mode
		}
		st.VolumeMounts = append(st.VolumeMounts, ms)
	}
}
