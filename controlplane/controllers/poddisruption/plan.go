package poddisruption

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/writ-os/writ/controlplane/controller/podset"
)

// evictionTimeout is how long an admitted eviction may take until it counts no
// more.
const evictionTimeout = 2 * time.Minute

// scale returns the size of the set that controls a pod, and the set's UID. A
// pod that nothing controls has the UID "".
type scale func(*corev1.Pod) (set types.UID, size int32, err error)

// decision is what is true of a budget now.
type decision struct {
	status policyv1.PodDisruptionBudgetStatus
	again  time.Duration // when an admitted eviction counts no more; 0 for never
	// unmanaged are pods that nothing controls and whose number therefore cannot
	// be known. They are not expected, but count when they are healthy.
	unmanaged []string
	none      bool // it has no pods
}

// plan counts the pods of a budget and says how many may go.
func plan(b *policyv1.PodDisruptionBudget, pods []*corev1.Pod, of scale, now time.Time) (decision, error) {
	d := decision{none: len(pods) == 0, status: policyv1.PodDisruptionBudgetStatus{ObservedGeneration: b.Generation, Conditions: b.DeepCopy().Status.Conditions}}
	s := &d.status
	var err error
	if s.ExpectedPods, s.DesiredHealthy, d.unmanaged, err = targets(b, pods, of); err != nil {
		return decision{}, err
	}
	s.DisruptedPods, d.again = disrupted(b, pods, now)
	for _, p := range pods {
		if _, going := s.DisruptedPods[p.Name]; !going && p.DeletionTimestamp == nil && podset.Ready(p) {
			s.CurrentHealthy++
		}
	}
	if s.ExpectedPods > 0 { // else the first pods that come would be without protection
		s.DisruptionsAllowed = max(s.CurrentHealthy-s.DesiredHealthy, 0)
	}
	cond := metav1.Condition{Type: policyv1.DisruptionAllowedCondition, ObservedGeneration: b.Generation, LastTransitionTime: metav1.NewTime(now)}
	cond.Status, cond.Reason = metav1.ConditionFalse, policyv1.InsufficientPodsReason
	if s.DisruptionsAllowed > 0 {
		cond.Status, cond.Reason = metav1.ConditionTrue, policyv1.SufficientPodsReason
	}
	meta.SetStatusCondition(&s.Conditions, cond)
	return d, nil
}

// failed is the status of a budget of which nothing can be said: none of its
// pods may be evicted until something can. What was counted last stays to be
// read, as upstream has it.
func failed(b *policyv1.PodDisruptionBudget, why error, now time.Time) policyv1.PodDisruptionBudgetStatus {
	s := *b.Status.DeepCopy()
	s.DisruptionsAllowed = 0
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.SyncFailedReason,
		Message: why.Error(), ObservedGeneration: s.ObservedGeneration, LastTransitionTime: metav1.NewTime(now),
	})
	return s
}

// targets returns how many pods there should be, how many must be healthy, and
// the pods of which nobody says how many there should be.
func targets(b *policyv1.PodDisruptionBudget, pods []*corev1.Pod, of scale) (expected, desired int32, unmanaged []string, err error) {
	most, least := b.Spec.MaxUnavailable, b.Spec.MinAvailable
	if most == nil && (least == nil || least.Type == intstr.Int) {
		if least != nil {
			desired = least.IntVal
		}
		return int32(len(pods)), desired, nil, nil
	}
	if expected, unmanaged, err = expectedPods(pods, of); err != nil {
		return 0, 0, nil, err
	}
	share := most
	if most == nil {
		share = least
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(share, int(expected), true)
	if err != nil {
		return 0, 0, nil, err
	}
	if most == nil {
		return expected, int32(n), unmanaged, nil
	}
	return expected, max(expected-int32(n), 0), unmanaged, nil
}

// expectedPods sums the sizes of the sets that control the pods.
func expectedPods(pods []*corev1.Pod, of scale) (n int32, unmanaged []string, err error) {
	sizes := map[types.UID]int32{}
	for _, p := range pods {
		set, size, err := of(p)
		switch {
		case err != nil:
			return 0, nil, err
		case set == "":
			unmanaged = append(unmanaged, p.Name)
		default:
			sizes[set] = size
		}
	}
	for _, size := range sizes {
		n += size
	}
	return n, unmanaged, nil
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
