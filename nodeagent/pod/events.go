package pod

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Reasons of events, as the kubelet words them.
const (
	eventPulling       = "Pulling"
	eventPulled        = "Pulled"
	eventFailed        = "Failed"
	eventInspectFailed = "InspectFailed"
	eventNeverPull     = "ErrImageNeverPull"
	eventBackOff       = "BackOff"
	eventCreated       = "Created"
	eventStarted       = "Started"
	eventKilling       = "Killing"
	eventUnhealthy     = "Unhealthy"
	eventFailedMount   = "FailedMount"
	eventSandbox       = "FailedCreatePodSandBox"
	eventSandboxChange = "SandboxChanged"
	eventPostStart     = "FailedPostStartHook"
	eventPreStop       = "FailedPreStopHook"
	eventFailedKill    = "FailedKillPod"
)

// event records an event about the pod.
func (w *worker) event(eventtype, reason, message string) {
	w.eventAbout("", eventtype, reason, message)
}

// eventAbout records an event about a container of the pod.
func (w *worker) eventAbout(container, eventtype, reason, message string) {
	if w.p.cfg.Events == nil {
		return
	}
	w.mu.Lock()
	pod := w.desired
	if isStatic(pod) && w.mirror != nil {
		pod = w.mirror
	}
	w.mu.Unlock()
	ref := corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		FieldPath: fieldPath(pod, container),
	}
	w.p.cfg.Events.EventAbout(ref, eventtype, reason, message)
}

func fieldPath(pod *corev1.Pod, container string) string {
	if container == "" {
		return ""
	}
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == container {
			return fmt.Sprintf("spec.initContainers{%s}", container)
		}
	}
	return fmt.Sprintf("spec.containers{%s}", container)
}

// Annotations of pods that come from files, and of their mirrors.
const (
	AnnotationSource = "kubernetes.io/config.source"
	AnnotationHash   = "kubernetes.io/config.hash"
	AnnotationMirror = "kubernetes.io/config.mirror"
)

func isStatic(pod *corev1.Pod) bool {
	s := pod.Annotations[AnnotationSource]
	return s != "" && s != "api" && pod.Annotations[AnnotationMirror] == ""
}
