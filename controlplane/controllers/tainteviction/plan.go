package tainteviction

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// noExecute returns the taints of a node that evict.
func noExecute(node *corev1.Node) []corev1.Taint {
	var out []corev1.Taint
	for _, t := range node.Spec.Taints {
		if t.Effect == corev1.TaintEffectNoExecute {
			out = append(out, t)
		}
	}
	return out
}

// plan returns the pods whose time is up, and when the next one's will be (0
// for never).
func plan(taints []corev1.Taint, pods []*corev1.Pod, now time.Time) (due []*corev1.Pod, again time.Duration) {
	for _, p := range pods {
		if p.DeletionTimestamp != nil {
			continue
		}
		end, evicted := eviction(taints, p)
		if !evicted {
			continue
		}
		wait := end.Sub(now)
		if wait <= 0 {
			due = append(due, p)
		} else if again == 0 || wait < again {
			again = wait
		}
	}
	return due, again
}

// eviction is when a pod must go; false for one that tolerates all taints for
// ever. Where several tolerations match a taint the shortest counts.
func eviction(taints []corev1.Taint, p *corev1.Pod) (end time.Time, evicted bool) {
	for _, t := range taints {
		at, limited := tolerated(t, p.Spec.Tolerations)
		if limited && (!evicted || at.Before(end)) {
			end, evicted = at, true
		}
	}
	return end, evicted
}

// tolerated is until when a taint is tolerated; false for ever.
func tolerated(t corev1.Taint, tolerations []corev1.Toleration) (until time.Time, limited bool) {
	matched := false
	for i := range tolerations {
		if !matches(&tolerations[i], &t) {
			continue
		}
		matched = true
		if s := tolerations[i].TolerationSeconds; s != nil {
			end := t.TimeAdded.Add(time.Duration(max(*s, 0)) * time.Second)
			if !limited || end.Before(until) {
				until, limited = end, true
			}
		}
	}
	if !matched {
		return t.TimeAdded.Time, true
	}
	return until, limited
}

// matches says that a toleration is about a taint.
func matches(tol *corev1.Toleration, t *corev1.Taint) bool {
	if tol.Effect != "" && tol.Effect != t.Effect || tol.Key != "" && tol.Key != t.Key {
		return false
	}
	switch tol.Operator {
	case "", corev1.TolerationOpEqual:
		return tol.Value == t.Value
	case corev1.TolerationOpExists:
		return true
	}
	return false
}
