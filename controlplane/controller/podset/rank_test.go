package podset

import (
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// From any order, pods come out by how much their end hurts.
func TestSortForDeletion(t *testing.T) {
	now := time.Unix(1e9, 0)
	pod := func(name string, change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: "z", CreationTimestamp: metav1.NewTime(now.Add(-24 * time.Hour))},
			Spec:       corev1.PodSpec{NodeName: "n1"},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-24 * time.Hour))}}},
		}
		if change != nil {
			change(p)
		}
		return p
	}
	want := []*corev1.Pod{
		pod("unassigned", func(p *corev1.Pod) { p.Spec.NodeName = "" }),
		pod("pending", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }),
		pod("unknown", func(p *corev1.Pod) { p.Status.Phase = corev1.PodUnknown }),
		pod("unready", func(p *corev1.Pod) { p.Status.Conditions = nil }),
		pod("cheap", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.PodDeletionCost: "-5"} }),
		pod("crowded", func(p *corev1.Pod) { p.Spec.NodeName = "full" }),
		pod("fresh", func(p *corev1.Pod) {
			p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-time.Minute))
		}),
		pod("restarted", func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 3}} }),
		pod("young", func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour)) }),
		pod("plain", nil),
		pod("dear", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.PodDeletionCost: "100"} }),
	}
	crowd := append([]*corev1.Pod(nil), want...)
	for range 20 {
		crowd = append(crowd, pod("other", func(p *corev1.Pod) { p.Spec.NodeName = "full" }))
	}
	for seed := range uint64(50) {
		got := append([]*corev1.Pod(nil), want...)
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
		SortForDeletion(got, crowd, now)
		for i := range want {
			if got[i].Name != want[i].Name {
				t.Fatalf("seed %d: place %d is %s, want %s", seed, i, got[i].Name, want[i].Name)
			}
		}
	}
}

// Pods of about one age go by chance, not the youngest first.
func TestLikeAgesGoByUID(t *testing.T) {
	now := time.Unix(1e9, 0)
	a := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "older", UID: "1", CreationTimestamp: metav1.NewTime(now.Add(-101 * time.Minute))}}
	b := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "younger", UID: "2", CreationTimestamp: metav1.NewTime(now.Add(-100 * time.Minute))}}
	got := []*corev1.Pod{b, a}
	SortForDeletion(got, got, now)
	if got[0] != a {
		t.Error("the younger of two of like age goes first, though its UID is higher")
	}
}
