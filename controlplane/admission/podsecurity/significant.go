package podsecurity

import corev1 "k8s.io/api/core/v1"

// significant says whether an update changes what the checks look at: of a pod
// that exists these are images and new ephemeral containers.
func significant(pod, old *corev1.Pod) bool {
	if len(pod.Spec.Containers) != len(old.Spec.Containers) || len(pod.Spec.InitContainers) != len(old.Spec.InitContainers) {
		return true
	}
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Image != old.Spec.Containers[i].Image {
			return true
		}
	}
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Image != old.Spec.InitContainers[i].Image {
			return true
		}
	}
	images := map[string]string{}
	for _, c := range old.Spec.EphemeralContainers {
		images[c.Name] = c.Image
	}
	for _, c := range pod.Spec.EphemeralContainers {
		if image, ok := images[c.Name]; !ok || image != c.Image {
			return true
		}
	}
	return false
}
