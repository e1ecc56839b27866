package poddisruption

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/writ-os/writ/controlplane/controller/podset"
)

// evictionTimeout is how long an admitted eviction may take until it counts no
// more.
const evictionTimeout = 2 * time.Minute

// plan counts the pods of a budget and says how many may go.
func plan(b *policyv1.PodDisruptionBudget, pods []*corev1.Pod, scale func(*corev1.Pod) (string, int32, bool), now time.Time) (policyv1.PodDisruptionBudgetStatus, time.Duration, error) {
	s := policyv1.PodDisruptionBudgetStatus{ObservedGeneration: b.Generation, Conditions: b.DeepCopy().Status.Conditions}
	expected, desired, err := targets(b, pods, scale)
	if err != nil {
		return s, 0, err
	}
	s.ExpectedPods, s.DesiredHealthy = expected, desired
	var again time.Duration
	s.DisruptedPods, again = disrupted(b, pods, now)
	for _, p := range pods {
		if _, going := s.DisruptedPods[p.Name]; !going && p.DeletionTimestamp == nil && podset.Ready(p) {
			s.CurrentHealthy++
		}
	}
	if expected > 0 {
		s.DisruptionsAllowed = max(s.CurrentHealthy-desired, 0)
	}
	cond := metav1.Condition{Type: policyv1.DisruptionAllowedCondition, ObservedGeneration: b.Generation, LastTransitionTime: metav1.NewTime(now)}
	cond.Status, cond.Reason = metav1.ConditionFalse, policyv1.InsufficientPodsReason
	if s.DisruptionsAllowed > 0 {
		cond.Status, cond.Reason = metav1.ConditionTrue, policyv1.SufficientPodsReason
	}
	meta.SetStatusCondition(&s.Conditions, cond)
	return s, again, nil
}

// targets returns how many pods there should be and how many must be healthy.
func targets(b *policyv1.PodDisruptionBudget, pods []*corev1.Pod, scale func(*corev1.Pod) (string, int32, bool)) (expected, desired int32, err error) {
	switch {
	case b.Spec.MaxUnavailable != nil:
		if expected, err = expectedPods(pods, scale); err != nil {
			return 0, 0, err
		}
		n, err := intstr.GetScaledValueFromIntOrPercent(b.Spec.MaxUnavailable, int(expected), true)
		if err != nil {
			return 0, 0, err
		}
		return expected, max(expected-int32(n), 0), nil
	case b.Spec.MinAvailable != nil && b.Spec.MinAvailable.Type == intstr.Int:
		return int32(len(pods)), b.Spec.MinAvailable.IntVal, nil
	case b.Spec.MinAvailable != nil:
		if expected, err = expectedPods(pods, scale); err != nil {
			return 0, 0, err
		}
		n, err := intstr.GetScaledValueFromIntOrPercent(b.Spec.MinAvailable, int(expected), true)
		return expected, int32(n), err
	}
	return int32(len(pods)), 0, nil
}

// expectedPods sums the sizes of the sets that control the pods.
func expectedPods(pods []*corev1.Pod, scale func(*corev1.Pod) (string, int32, bool)) (int32, error) {
	sizes := map[string]int32{}
	for _, p := range pods {
		uid, size, ok := scale(p)
		if !ok {
			return 0, fmt.Errorf("found no controllers for pod %q", p.Name)
		}
		sizes[uid] = size
	}
	n := int32(0)
	for _, size := range sizes {
		n += size
	}
	return n, nil
}

// disrupted keeps the admitted evictions that are still on their way, and says
// when the next of them will count no more.
func disrupted(b *policyv1.PodDisruptionBudget, pods []*corev1.Pod, now time.Time) (map[string]metav1.Time, time.Duration) {
	var out map[string]metav1.Time
	var again time.Duration
	for _, p := range pods {
		at, ok := b.Status.DisruptedPods[p.Name]
		wait := at.Add(evictionTimeout).Sub(now)
		if !ok || p.DeletionTimestamp != nil || wait <= 0 {
			continue
		}
		if out == nil {
			out = map[string]metav1.Time{}
		}
		out[p.Name] = at
		if again == 0 || wait < again {
			again = wait
		}
	}
	return out, again
}
