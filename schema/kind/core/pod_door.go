package core

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podStatus prepares a change through the door of the status.
func podStatus(pod, was *corev1.Pod) {
	pod.OwnerReferences = was.OwnerReferences
	pod.DeletionTimestamp = was.DeletionTimestamp
	if pod.Status.QOSClass == "" {
		pod.Status.QOSClass = was.Status.QOSClass
	}
	keepObserved(&pod.Status, &was.Status)
}

// keepObserved keeps the observed generations that a writer does not know of,
// which may be older than they are.
func keepObserved(is, was *corev1.PodStatus) {
	if is.ObservedGeneration == 0 {
		is.ObservedGeneration = was.ObservedGeneration
	}
	for i := range is.Conditions {
		c := &is.Conditions[i]
		j := slices.IndexFunc(was.Conditions, func(o corev1.PodCondition) bool { return o.Type == c.Type })
		if j >= 0 && c.ObservedGeneration == 0 {
			c.ObservedGeneration = was.Conditions[j].ObservedGeneration
		}
	}
}

// podDoor restores all that a door does not let through.
func podDoor(sub string, pod, was *corev1.Pod) {
	spec := was.Spec.DeepCopy()
	switch sub {
	case "ephemeralcontainers":
		spec.EphemeralContainers = pod.Spec.EphemeralContainers
	case "resize":
		if len(pod.Spec.Containers) != len(spec.Containers) || len(pod.Spec.InitContainers) != len(spec.InitContainers) {
			return // refused as it is
		}
		spec.Resources = pod.Spec.Resources
		spec.Containers = resized(spec.Containers, pod.Spec.Containers)
		spec.InitContainers = resized(spec.InitContainers, pod.Spec.InitContainers)
	}
	pod.Spec = *spec
	metav1.ResetObjectMetaForStatus(&pod.ObjectMeta, &was.ObjectMeta)
}

// resized takes over the resources of containers. Containers in another order
// are refused later.
func resized(containers, from []corev1.Container) []corev1.Container {
	for i := range containers {
		if containers[i].Name != from[i].Name {
			return from
		}
	}
	for i := range containers {
		containers[i].Resources, containers[i].ResizePolicy = from[i].Resources, from[i].ResizePolicy
	}
	return containers
}

// mergeLabelKeys puts the values that keys of labels have in this pod into the
// selectors beside them (KEP-3243, KEP-3633).
func mergeLabelKeys(pod *corev1.Pod) {
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		addLabelKeys(c.LabelSelector, c.MatchLabelKeys, metav1.LabelSelectorOpIn, pod.Labels)
	}
	term := func(t *corev1.PodAffinityTerm) {
		addLabelKeys(t.LabelSelector, t.MatchLabelKeys, metav1.LabelSelectorOpIn, pod.Labels)
		addLabelKeys(t.LabelSelector, t.MismatchLabelKeys, metav1.LabelSelectorOpNotIn, pod.Labels)
	}
	terms := func(preferred []corev1.WeightedPodAffinityTerm, required []corev1.PodAffinityTerm) {
		for i := range preferred {
			term(&preferred[i].PodAffinityTerm)
		}
		for i := range required {
			term(&required[i])
		}
	}
	a := pod.Spec.Affinity
	if a == nil {
		return
	}
	if p := a.PodAffinity; p != nil {
		terms(p.PreferredDuringSchedulingIgnoredDuringExecution, p.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	if p := a.PodAntiAffinity; p != nil {
		terms(p.PreferredDuringSchedulingIgnoredDuringExecution, p.RequiredDuringSchedulingIgnoredDuringExecution)
	}
}

func addLabelKeys(s *metav1.LabelSelector, keys []string, op metav1.LabelSelectorOperator, labels map[string]string) {
	if s == nil {
		return
	}
	for _, k := range keys {
		if v, ok := labels[k]; ok {
			s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: k, Operator: op, Values: []string{v}})
		}
	}
}

// podNormal: a grace period below nothing is the shortest. A template keeps it.
func podNormal(pod *corev1.Pod) {
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil && *s < 0 {
		pod.Spec.TerminationGracePeriodSeconds = new(int64(1))
	}
	podAddresses(&pod.Status)
}

// podAddresses makes the one address of a pod the first of all of them: of two
// opinions that of the older field counts.
func podAddresses(s *corev1.PodStatus) {
	switch {
	case s.PodIP != "" && (len(s.PodIPs) == 0 || s.PodIPs[0].IP != s.PodIP):
		s.PodIPs = []corev1.PodIP{{IP: s.PodIP}}
	case s.PodIP == "" && len(s.PodIPs) > 0:
		s.PodIP = s.PodIPs[0].IP
	}
}
