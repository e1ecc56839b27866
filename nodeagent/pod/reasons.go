package pod

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Reasons of containers that wait, as Kubernetes words them.
const (
	ReasonErrImagePull      = "ErrImagePull"
	ReasonImagePullBackOff  = "ImagePullBackOff"
	ReasonErrImageNeverPull = "ErrImageNeverPull"
	ReasonInvalidImageName  = "InvalidImageName"
	ReasonImageInspectError = "ImageInspectError"
	ReasonConfigError       = "CreateContainerConfigError"
	ReasonCreateError       = "CreateContainerError"
	ReasonRunContainerError = "RunContainerError"
	ReasonPostStartError    = "PostStartHookError"
)

// format names a pod in messages: name_namespace(uid).
func format(pod *corev1.Pod) string {
	return fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID)
}

func backOffMessage(pod *corev1.Pod, container string, wait time.Duration) string {
	return fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", wait, container, format(pod))
}

func pullBackOffMessage(image string, f *Fault) string {
	return fmt.Sprintf("Back-off pulling image %q: %s: %s", image, f.Reason, f.Message)
}
