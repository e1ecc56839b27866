package poddisruption

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/controlplane/controller/controllertest"
	"github.com/writ-os/writ/schema"
)

// guarded is a budget that allowed three evictions when it was last counted,
// and four ready pods that a set of a kind controls; "" for none.
func guarded(set string) []schema.Object {
	one := intstr.FromInt32(1)
	objects := []schema.Object{&policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 3, ExpectedPods: 4, CurrentHealthy: 4, DesiredHealthy: 1, ObservedGeneration: 1},
	}}
	for i := range 4 {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("db-", i), Labels: map[string]string{"app": "db"}},
			Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
		}
		if set != "" {
			yes := true
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: set, Name: "db", UID: "1", Controller: &yes}}
		}
		objects = append(objects, p)
	}
	return objects
}

func sized(n int32) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: "1"}, Spec: appsv1.StatefulSetSpec{Replicas: &n}}
}

func statusOf(t *testing.T, f *client.Fake) policyv1.PodDisruptionBudgetStatus {
	t.Helper()
	b, err := client.Get[*policyv1.PodDisruptionBudget](t.Context(), f, schema.Key{Namespace: "shop", Name: "db"})
	if err != nil {
		t.Fatal(err)
	}
	return b.Status
}

// tableOnly is a controller that knows no custom resources.
func tableOnly(t controller.Tools) *Controller { return New(Config{Tools: t}) }

// A budget that cannot be counted allows nothing, and says why; it is right
// again as soon as it can be.
func TestFailsClosed(t *testing.T) {
	for set, why := range map[string]string{
		"StatefulSet": `found no controllers for pod "db-0"`,
		"ReplicaSet":  `found no controllers for pod "db-0"`,
		"Job":         `no matches for kind "Job" in version "apps/v1"`,
		"DaemonSet":   `daemonsets.apps does not implement the scale subresource`,
	} {
		t.Run(set, func(t *testing.T) {
			controllertest.Bubble(t, tableOnly, func(_ context.Context, f *client.Fake) {
				s := statusOf(t, f)
				cond := meta.FindStatusCondition(s.Conditions, policyv1.DisruptionAllowedCondition)
				if s.DisruptionsAllowed != 0 || cond == nil || cond.Status != metav1.ConditionFalse || cond.Reason != policyv1.SyncFailedReason || cond.Message != why {
					t.Errorf("allows %d, condition %+v", s.DisruptionsAllowed, cond)
				}
				if set != "StatefulSet" {
					return
				}
				f.Put(sized(5))
				synctest.Wait()
				if s := statusOf(t, f); s.DisruptionsAllowed != 0 || s.ExpectedPods != 5 || s.DesiredHealthy != 4 || s.Conditions[0].Reason != policyv1.InsufficientPodsReason {
					t.Errorf("the set has come: %+v", s)
				}
				f.Put(sized(4))
				synctest.Wait()
				if s := statusOf(t, f); s.DisruptionsAllowed != 1 || s.ExpectedPods != 4 {
					t.Errorf("the set has shrunk: %+v", s)
				}
			}, guarded(set)...)
		})
	}
}

// Pods that nothing controls are no error: they are not expected, but count as
// healthy, beside those of sets.
func TestUnmanagedPods(t *testing.T) {
	controllertest.Bubble(t, tableOnly, func(_ context.Context, f *client.Fake) {
		if s := statusOf(t, f); s.ExpectedPods != 0 || s.DisruptionsAllowed != 0 || s.CurrentHealthy != 4 || s.Conditions[0].Reason != policyv1.InsufficientPodsReason {
			t.Errorf("alone: %+v", s)
		}
		f.Put(sized(1))
		yes := true
		f.Put(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-9", Labels: map[string]string{"app": "db"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "1", Controller: &yes}}}})
		synctest.Wait()
		if s := statusOf(t, f); s.ExpectedPods != 1 || s.CurrentHealthy != 4 || s.DesiredHealthy != 0 || s.DisruptionsAllowed != 4 {
			t.Errorf("beside a set: %+v", s)
		}
	}, guarded("")...)
}
