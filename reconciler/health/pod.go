package health

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// stuck are the reasons for which a container waits and that do not go away
// while nobody acts, or not soon.
var stuck = map[string]bool{
	"CrashLoopBackOff": true, "RunContainerError": true, "CreateContainerError": true, "CreateContainerConfigError": true,
	"ImagePullBackOff": true, "ErrImagePull": true, "ErrImageNeverPull": true, "InvalidImageName": true, "ImageInspectError": true,
	"RegistryUnavailable": true, "SignatureValidationFailed": true, "PostStartHookError": true, "PreStartHookError": true, "PreCreateHookError": true,
}

func pod(p *corev1.Pod) Health {
	switch p.Status.Phase {
	case corev1.PodSucceeded:
		return healthy()
	case corev1.PodFailed:
		return degraded("has failed%s", why(p.Status.Reason, podFailure(p)))
	}
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if w := s.State.Waiting; w != nil && stuck[w.Reason] {
			return degraded("container %s%s%s", s.Name, why(w.Reason, w.Message), last(&s))
		}
	}
	for _, c := range p.Status.Conditions {
		switch {
		case c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue:
			return healthy()
		case c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonSchedulingGated:
			return progressing("is not scheduled: it has scheduling gates")
		case c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse:
			return progressing("is not scheduled%s", why("", c.Message))
		}
	}
	return progressing("is not ready%s", waiting(p))
}

// podFailure is the pod's own message, or what became of its first container
// that failed.
func podFailure(p *corev1.Pod) string {
	if p.Status.Message != "" {
		return p.Status.Message
	}
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if t := s.State.Terminated; t != nil && t.ExitCode != 0 {
			return fmt.Sprintf("container %s ended with exit code %d%s", s.Name, t.ExitCode, why(t.Reason, t.Message))
		}
	}
	return ""
}

// last is how a container ended that is started over and over.
func last(s *corev1.ContainerStatus) string {
	if t := s.LastTerminationState.Terminated; t != nil {
		return fmt.Sprintf(" (exit code %d, %s, %d restarts)", t.ExitCode, t.Reason, s.RestartCount)
	}
	return ""
}

// waiting names the first container that is not ready.
func waiting(p *corev1.Pod) string {
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		switch {
		case s.State.Waiting != nil && s.State.Waiting.Reason != "":
			return fmt.Sprintf(": container %s%s", s.Name, why(s.State.Waiting.Reason, s.State.Waiting.Message))
		case s.State.Running != nil && !s.Ready:
			return fmt.Sprintf(": container %s runs and is not ready", s.Name)
		}
	}
	return ""
}

// why joins a reason and a message that may both be empty.
func why(reason, message string) string {
	out := ""
	for _, s := range []string{reason, message} {
		if s != "" {
			out += ": " + s
		}
	}
	return out
}
