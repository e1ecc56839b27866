package podset

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SortForDeletion puts the pods whose end hurts least first: not assigned,
// pending, not ready, cheap by annotation, doubled up on a node, ready for a
// short time, often restarted, young. The order is upstream's. related are the
// pods of all sets that belong together (the replica sets of a deployment).
func SortForDeletion(pods, related []*corev1.Pod, now time.Time) {
	perNode := map[string]int{}
	for _, p := range related {
		if Active(p) {
			perNode[p.Spec.NodeName]++
		}
	}
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(
			boolFirst(a.Spec.NodeName == "", b.Spec.NodeName == ""),
			cmp.Compare(phaseRank(a), phaseRank(b)),
			boolFirst(!Ready(a), !Ready(b)),
			cmp.Compare(deletionCost(a), deletionCost(b)),
			cmp.Compare(perNode[b.Spec.NodeName], perNode[a.Spec.NodeName]),
			compareReady(a, b, now),
			compareRestarts(a, b),
			compareAge(a.CreationTimestamp, b.CreationTimestamp, a, b, now),
		)
	})
}

func boolFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func phaseRank(p *corev1.Pod) int {
	switch p.Status.Phase {
	case corev1.PodUnknown:
		return 1
	case corev1.PodRunning:
		return 2
	}
	return 0
}

func deletionCost(p *corev1.Pod) int {
	n, err := strconv.ParseInt(p.Annotations[corev1.PodDeletionCost], 10, 32)
	if err != nil {
		return 0
	}
	return int(n)
}

func compareReady(a, b *corev1.Pod, now time.Time) int {
	if !Ready(a) || !Ready(b) {
		return 0
	}
	return compareAge(Condition(a, corev1.PodReady).LastTransitionTime, Condition(b, corev1.PodReady).LastTransitionTime, a, b, now)
}

// compareAge puts the younger first. Ages count by their power of two, so that
// among pods of about one age chance decides (their UID): else a scale down
// would empty the node that came last.
func compareAge(a, b metav1.Time, pa, pb *corev1.Pod, now time.Time) int {
	if a.Equal(&b) {
		return 0
	}
	if a.IsZero() || b.IsZero() {
		return boolFirst(a.IsZero(), b.IsZero())
	}
	if d := logAge(a.Time, now) - logAge(b.Time, now); d != 0 {
		return d
	}
	return cmp.Compare(pa.UID, pb.UID)
}

func logAge(t, now time.Time) int {
	d := now.Sub(t)
	if d <= 0 {
		return -1
	}
	return int(math.Log2(float64(d)))
}

func compareRestarts(a, b *corev1.Pod) int {
	ra, sa := restarts(a)
	rb, sb := restarts(b)
	return cmp.Or(cmp.Compare(rb, ra), cmp.Compare(sb, sa))
}

// restarts returns the most restarts of a container and of a sidecar.
func restarts(p *corev1.Pod) (regular, sidecar int32) {
	for _, s := range p.Status.ContainerStatuses {
		regular = max(regular, s.RestartCount)
	}
	always := map[string]bool{}
	for _, c := range p.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			always[c.Name] = true
		}
	}
	for _, s := range p.Status.InitContainerStatuses {
		if always[s.Name] {
			sidecar = max(sidecar, s.RestartCount)
		}
	}
	return regular, sidecar
}
