package pod

import (
	"fmt"
	"slices"

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
	eventHTTPFallback  = "LifecycleHTTPFallback"
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

// sayBackOffs records an event for every container that has begun to wait
// before it is started again.
func (w *worker) sayBackOffs(next *corev1.PodStatus) {
	for _, name := range newBackOffs(&w.last, next) {
		w.eventAbout(name, corev1.EventTypeWarning, eventBackOff,
			fmt.Sprintf("Back-off restarting failed container %s in pod %s", name, format(w.pod)))
	}
}

// newBackOffs returns the containers that are in back-off now and were not
// before, or not after the same attempt.
func newBackOffs(last, next *corev1.PodStatus) []string {
	before := map[string]int32{}
	for name, c := range backingOff(last) {
		before[name] = c.RestartCount
	}
	var out []string
	for name, c := range backingOff(next) {
		if n, ok := before[name]; !ok || n != c.RestartCount {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func backingOff(s *corev1.PodStatus) map[string]*corev1.ContainerStatus {
	out := map[string]*corev1.ContainerStatus{}
	for _, list := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
		for i := range list {
			if wait := list[i].State.Waiting; wait != nil && wait.Reason == "CrashLoopBackOff" {
				out[list[i].Name] = &list[i]
			}
		}
	}
	return out
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
