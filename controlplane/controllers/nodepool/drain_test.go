package nodepool

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/schema/v1alpha1"
)

func TestDrain(t *testing.T) {
	owner := func(kind string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.OwnerReferences[0].Kind = kind }
	}
	phase := func(s corev1.PodPhase) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Status.Phase = s } }
	mirror := func(p *corev1.Pod) {
		bare(p)
		p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	}
	evictable := func(p *corev1.Pod) {
		bare(p)
		p.Annotations = map[string]string{v1alpha1.EvictableAnnotation: "true"}
	}
	notEvictable := func(p *corev1.Pod) { evictable(p); p.Annotations[v1alpha1.EvictableAnnotation] = "no" }
	ending := func(p *corev1.Pod) { now := metav1.NewTime(noon); p.DeletionTimestamp = &now }
	sick := func(p *corev1.Pod) { p.Status.Conditions = nil }
	other := func(p *corev1.Pod) { p.Namespace = "other" }
	emptyDir := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	}
	always := policyv1.AlwaysAllow
	lenient := aBudget("web", 0)
	lenient.Spec.UnhealthyPodEvictionPolicy = &always
	broken := aBudget("web", 0)
	broken.Status.CurrentHealthy = 1
	unseen := aBudget("web", 5)
	unseen.Generation = 2
	pods := func(p ...*corev1.Pod) []*corev1.Pod { return p }

	for _, c := range []struct {
		name    string
		pods    []*corev1.Pod
		budgets []*policyv1.PodDisruptionBudget
		want    string
	}{
		{"nobody", nil, nil, "[] 0 []"},
		{"of a set", pods(aPod("a", "n")), nil, "[a] 0 []"},
		{"of a job", pods(aPod("a", "n", owner("Job"))), nil, "[a] 0 []"},
		{"with data that goes", pods(aPod("a", "n", emptyDir)), nil, "[a] 0 []"},
		{"of a daemon set", pods(aPod("a", "n", owner("DaemonSet"))), nil, "[] 0 []"},
		{"from a file", pods(aPod("a", "n", mirror)), nil, "[] 0 []"},
		{"finished", pods(aPod("a", "n", phase(corev1.PodSucceeded)), aPod("b", "n", bare, phase(corev1.PodFailed))), nil, "[] 0 []"},
		{"on its way", pods(aPod("a", "n", ending), aPod("b", "n", bare, ending)), nil, "[] 2 []"},
		{"nobody's", pods(aPod("a", "n", bare)), nil, `[] 0 [pod shop/a has no controller that would make it anew: delete it, or annotate it with writ.dev/evictable: "true"]`},
		{"nobody's, may go", pods(aPod("a", "n", evictable)), nil, "[a] 0 []"},
		{"nobody's, may not go", pods(aPod("a", "n", notEvictable)), nil, `[] 0 [pod shop/a has no controller that would make it anew: delete it, or annotate it with writ.dev/evictable: "true"]`},
		{"the budget allows one", pods(aPod("a", "n"), aPod("b", "n")), []*policyv1.PodDisruptionBudget{aBudget("web", 1)}, "[a] 0 [PodDisruptionBudget shop/web blocks pod b: 3 of its pods are healthy, 2 must be]"},
		{"of another namespace", pods(aPod("a", "n", other)), []*policyv1.PodDisruptionBudget{aBudget("web", 0)}, "[a] 0 []"},
		{"not begun", pods(aPod("a", "n", phase(corev1.PodPending))), []*policyv1.PodDisruptionBudget{aBudget("web", 0)}, "[a] 0 []"},
		{"sick, enough others", pods(aPod("a", "n", sick)), []*policyv1.PodDisruptionBudget{aBudget("web", 0)}, "[a] 0 []"},
		{"sick, too few others", pods(aPod("a", "n", sick)), []*policyv1.PodDisruptionBudget{broken}, "[] 0 [PodDisruptionBudget shop/web blocks pod a: 1 of its pods are healthy, 2 must be]"},
		{"sick, always allowed", pods(aPod("a", "n", sick)), []*policyv1.PodDisruptionBudget{lenient}, "[a] 0 []"},
		{"a budget not looked at yet", pods(aPod("a", "n")), []*policyv1.PodDisruptionBudget{unseen}, "[] 0 [PodDisruptionBudget shop/web blocks pod a: 7 of its pods are healthy, 2 must be]"},
		{"two budgets", pods(aPod("a", "n")), []*policyv1.PodDisruptionBudget{aBudget("web", 5), aBudget("shop", 5)}, "[] 0 [pod shop/a has several PodDisruptionBudgets (web and shop), which evictions cannot serve: leave it one]"},
	} {
		d := newAllowances(c.budgets).look(c.pods)
		var names []string
		for _, p := range d.evict {
			names = append(names, p.Name)
		}
		if got := fmt.Sprint(names, d.leaving, d.stuck); got != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
		}
		if d.empty() != (c.want == "[] 0 []") {
			t.Errorf("%s: empty %v", c.name, d.empty())
		}
	}
}

// Two nodes that are drained at a time share the budgets.
func TestDrainsShareBudgets(t *testing.T) {
	a := newAllowances([]*policyv1.PodDisruptionBudget{aBudget("web", 1)})
	first, second := a.look([]*corev1.Pod{aPod("a", "n1")}), a.look([]*corev1.Pod{aPod("b", "n2")})
	if len(first.evict) != 1 || len(second.evict) != 0 {
		t.Errorf("%d and %d evicted of one allowed", len(first.evict), len(second.evict))
	}
}
