package poddisruption

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller/controllertest"
	"github.com/writ-os/writ/controlplane/controller/podset"
	"github.com/writ-os/writ/schema"
)

// A pod that was marked for its disruption and lives on loses the mark after two
// minutes; others keep theirs.
func TestStaleMark(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		stays  bool
	}{
		"lives on": {func(*corev1.Pod) {}, false},
		"ends": {func(p *corev1.Pod) {
			p.DeletionTimestamp = ptr.To(metav1.Now())
			p.Finalizers = []string{"example.com/x"}
		}, true},
		"has ended":            {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, true},
		"ended by its kubelet": {func(p *corev1.Pod) { p.Status.Conditions[0].Reason = corev1.PodReasonTerminationByKubelet }, true},
	} {
		t.Run(name, func(t *testing.T) {
			controllertest.Bubble(t, tableOnly, func(_ context.Context, f *client.Fake) {
				p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p", Generation: 3}, Status: corev1.PodStatus{Phase: corev1.PodRunning,
					Conditions: []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler, LastTransitionTime: metav1.Now()}}}}
				c.change(p)
				f.Put(p)
				status := func() corev1.PodCondition {
					synctest.Wait()
					now, _ := client.Cached[*corev1.Pod](f.Cache(), schema.KeyOf(p))
					return *podset.Condition(now, corev1.DisruptionTarget)
				}
				time.Sleep(staleAfter - time.Second)
				if got := status(); got.Status != corev1.ConditionTrue {
					t.Errorf("too early: %+v", got)
				}
				writes := f.Writes()
				time.Sleep(time.Hour)
				got := status()
				if (got.Status == corev1.ConditionTrue) != c.stays {
					t.Errorf("an hour later: %+v", got)
				}
				if n := f.Writes() - writes; n > 1 || c.stays && n > 0 {
					t.Errorf("%d writes", n)
				}
			})
		})
	}
}
