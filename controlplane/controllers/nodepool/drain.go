package nodepool

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/writ-os/writ/controlplane/controller/podset"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// drain is what stands between a node and its reboot. The pods that must leave
// are those of "kubectl drain --ignore-daemonsets --delete-emptydir-data".
type drain struct {
	evict   []*corev1.Pod // may be asked to leave now
	leaving int           // have been
	stuck   []string      // may not, and why: one sentence each
}

// empty says that nobody is left who must leave.
func (d drain) empty() bool { return len(d.evict)+d.leaving+len(d.stuck) == 0 }

// why says what is waited for.
func (d drain) why() string {
	var parts []string
	if n := len(d.evict) + d.leaving; n > 0 {
		parts = append(parts, fmt.Sprintf("%s leaving", count(n, "pod is", "pods are")))
	}
	if len(d.stuck) > 0 {
		parts = append(parts, list(d.stuck))
	}
	return strings.Join(parts, "; ")
}

// allowances are how many disruptions each budget still has, while a plan
// spends them.
type allowances struct {
	budgets []*policyv1.PodDisruptionBudget
	left    map[schema.Key]int32
}

func newAllowances(budgets []*policyv1.PodDisruptionBudget) *allowances {
	a := &allowances{budgets: budgets, left: map[schema.Key]int32{}}
	for _, b := range budgets {
		a.left[schema.KeyOf(b)] = b.Status.DisruptionsAllowed
	}
	return a
}

// take asks the budgets of a pod for one disruption, as the eviction
// subresource will; the text says which refuses.
func (a *allowances) take(p *corev1.Pod) (refused string) {
	var mine []*policyv1.PodDisruptionBudget
	for _, b := range a.budgets {
		sel, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && b.Namespace == p.Namespace && sel.Matches(labels.Set(p.Labels)) {
			mine = append(mine, b)
		}
	}
	switch {
	case p.Status.Phase == corev1.PodPending || len(mine) == 0:
		return ""
	case len(mine) > 1:
		return fmt.Sprintf("pod %s has several PodDisruptionBudgets (%s and %s), which evictions cannot serve: leave it one",
			schema.KeyOf(p), mine[0].Name, mine[1].Name)
	}
	b, key := mine[0], schema.KeyOf(mine[0])
	if spares(b, p) {
		return ""
	}
	if a.left[key] <= 0 || b.Status.ObservedGeneration < b.Generation {
		return fmt.Sprintf("PodDisruptionBudget %s blocks pod %s: %d of its pods are healthy, %d must be", key, p.Name, b.Status.CurrentHealthy, b.Status.DesiredHealthy)
	}
	a.left[key]--
	return ""
}

// spares says that a pod may go without asking its budget: it is not ready, so
// nobody is disrupted, and the budget allows that (KEP-3017).
func spares(b *policyv1.PodDisruptionBudget, p *corev1.Pod) bool {
	if podset.Ready(p) {
		return false
	}
	if u := b.Spec.UnhealthyPodEvictionPolicy; u != nil && *u == policyv1.AlwaysAllow {
		return true
	}
	return b.Status.DesiredHealthy > 0 && b.Status.CurrentHealthy >= b.Status.DesiredHealthy
}

// look sees what a drain of a node has to do.
func (a *allowances) look(pods []*corev1.Pod) drain {
	var d drain
	for _, p := range pods {
		if stays(p) {
			continue
		}
		if p.DeletionTimestamp != nil {
			d.leaving++
			continue
		}
		if text := homeless(p); text != "" {
			d.stuck = append(d.stuck, text)
			continue
		}
		if text := a.take(p); text != "" {
			d.stuck = append(d.stuck, text)
			continue
		}
		d.evict = append(d.evict, p)
	}
	slices.Sort(d.stuck)
	return d
}

// stays says that a drain leaves the pod where it is: it has ended, its
// DaemonSet would put it back, or the node runs it from a file.
func stays(p *corev1.Pod) bool {
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return true
	}
	if _, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return true
	}
	owner := metav1.GetControllerOfNoCopy(p)
	return owner != nil && owner.Kind == "DaemonSet"
}

// homeless says of a pod that nobody would make anew elsewhere why it holds a
// drain up; "" of others.
func homeless(p *corev1.Pod) string {
	if metav1.GetControllerOfNoCopy(p) != nil || p.Annotations[v1alpha1.EvictableAnnotation] == "true" {
		return ""
	}
	return fmt.Sprintf("pod %s has no controller that would make it anew: delete it, or annotate it with %s: \"true\"", schema.KeyOf(p), v1alpha1.EvictableAnnotation)
}

// count writes a number with its word.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
