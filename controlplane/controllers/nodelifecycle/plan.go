package nodelifecycle

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// decision is what to do about one node.
type decision struct {
	node  *corev1.Node  // with the conditions of silence; nil for no change
	again time.Duration // when it may have been silent for too long; 0 for one that has
}

// plan decides whether a node has been silent for too long.
func plan(node *corev1.Node, s sign, now time.Time, grace time.Duration) decision {
	silence := now.Sub(s.at)
	if silence < grace {
		return decision{again: min(grace-silence, grace)}
	}
	next := node.DeepCopy()
	changed := false
	for _, t := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		changed = silent(next, t, now) || changed
	}
	if !changed {
		next = nil
	}
	return decision{node: next}
}

// silent sets a condition to Unknown; false when it is already.
func silent(node *corev1.Node, t corev1.NodeConditionType, now time.Time) bool {
	at := metav1.NewTime(now)
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		if c.Type != t {
			continue
		}
		if c.Status == corev1.ConditionUnknown {
			return false
		}
		c.Status, c.LastTransitionTime = corev1.ConditionUnknown, at
		c.Reason, c.Message = "NodeStatusUnknown", "Kubelet stopped posting node status."
		return true
	}
	node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
		Type: t, Status: corev1.ConditionUnknown, LastHeartbeatTime: node.CreationTimestamp, LastTransitionTime: at,
		Reason: "NodeStatusNeverUpdated", Message: "Kubelet never posted node status.",
	})
	return true
}

// isSilent says that a node has told its state once and is not ready now.
func isSilent(node *corev1.Node) bool {
	r := readyCondition(node)
	return r != nil && r.Status != corev1.ConditionTrue
}

func readyCondition(node *corev1.Node) *corev1.NodeCondition {
	return condition(node, corev1.NodeReady)
}

func condition(node *corev1.Node, t corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == t {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

// rule says that a condition in a state keeps new pods away by a taint.
type rule struct {
	condition corev1.NodeConditionType
	status    corev1.ConditionStatus
	taint     string
}

var rules = []rule{
	{corev1.NodeReady, corev1.ConditionFalse, corev1.TaintNodeNotReady},
	{corev1.NodeReady, corev1.ConditionUnknown, corev1.TaintNodeUnreachable},
	{corev1.NodeMemoryPressure, corev1.ConditionTrue, corev1.TaintNodeMemoryPressure},
	{corev1.NodeDiskPressure, corev1.ConditionTrue, corev1.TaintNodeDiskPressure},
	{corev1.NodeNetworkUnavailable, corev1.ConditionTrue, corev1.TaintNodeNetworkUnavailable},
	{corev1.NodePIDPressure, corev1.ConditionTrue, corev1.TaintNodePIDPressure},
}

// taints returns the taints that a node should have: those of others as they
// are, ours as the conditions say. One that may not be evicted from (all nodes
// are silent, or it is not its turn yet) gets no taint of eviction.
func taints(node *corev1.Node, mayEvict bool, now time.Time) []corev1.Taint {
	want := map[corev1.Taint]bool{} // key and effect
	for _, r := range rules {
		if c := condition(node, r.condition); c != nil && c.Status == r.status {
			want[corev1.Taint{Key: r.taint, Effect: corev1.TaintEffectNoSchedule}] = true
		}
	}
	if node.Spec.Unschedulable {
		want[corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}] = true
	}
	if r := readyCondition(node); r != nil && mayEvict {
		switch r.Status {
		case corev1.ConditionFalse:
			want[corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute}] = true
		case corev1.ConditionUnknown:
			want[corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}] = true
		}
	}
	var out []corev1.Taint
	for _, t := range node.Spec.Taints {
		id := corev1.Taint{Key: t.Key, Effect: t.Effect}
		switch {
		case !ours(t):
			out = append(out, t)
		case want[id]:
			out = append(out, t)
			delete(want, id)
		}
	}
	at := metav1.NewTime(now)
	var fresh []corev1.Taint
	for t := range want {
		t.TimeAdded = &at
		fresh = append(fresh, t)
	}
	slices.SortFunc(fresh, func(a, b corev1.Taint) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(b.Effect, a.Effect)) // NoSchedule first
	})
	return append(out, fresh...)
}

// ours says that a taint is one that this controller sets.
func ours(t corev1.Taint) bool {
	switch t.Effect {
	case corev1.TaintEffectNoExecute:
		return t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable
	case corev1.TaintEffectNoSchedule:
		return t.Key == corev1.TaintNodeUnschedulable || slices.ContainsFunc(rules, func(r rule) bool { return r.taint == t.Key })
	}
	return false
}

func hasEvictionTaint(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoExecute && ours(t)
	})
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// unready returns the pod with its Ready condition false; nil when it is not
// true now.
func unready(p *corev1.Pod, now metav1.Time) *corev1.Pod {
	for i := range p.Status.Conditions {
		if c := p.Status.Conditions[i]; c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			next := p.DeepCopy()
			next.Status.Conditions[i].Status = corev1.ConditionFalse
			next.Status.Conditions[i].Reason = "NodeNotReady"
			next.Status.Conditions[i].LastTransitionTime = now
			return next
		}
	}
	return nil
}
