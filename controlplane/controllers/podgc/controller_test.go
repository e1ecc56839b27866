package podgc

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller/controllertest"
	"github.com/writ-os/writ/schema"
)

func pod(name, node string, phase corev1.PodPhase, age time.Duration) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age))},
		Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase},
	}
}

func TestPlan(t *testing.T) {
	ending := pod("ending", "", corev1.PodPending, 0)
	ending.DeletionTimestamp = &metav1.Time{}
	endingOnNode := pod("ending-on-node", "n1", corev1.PodRunning, 0)
	endingOnNode.DeletionTimestamp = &metav1.Time{}
	pods := []*corev1.Pod{
		pod("lost", "gone", corev1.PodRunning, 0), pod("runs", "n1", corev1.PodRunning, 0), ending, endingOnNode,
		pod("old", "n1", corev1.PodSucceeded, 3*time.Hour), pod("older", "n1", corev1.PodFailed, 4*time.Hour), pod("new", "n1", corev1.PodSucceeded, time.Hour),
	}
	got := ""
	for _, r := range plan(pods, map[string]bool{"gone": true}, 1) {
		got += r.pod.Name + " "
	}
	if got != "lost ending older old " {
		t.Errorf("removes %s", got)
	}
}

// The pods of a node that is deleted go after the quarantine, marked as
// failed; those of a node that comes back in time stay.
func TestLostNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := client.NewFake(pod("lost", "gone", corev1.PodRunning, 0), pod("kept", "back", corev1.PodRunning, 0))
		var failed int
		if err := f.Cache().Subscribe(t.Context(), schema.ResourceFor[*corev1.Pod](), func(ev client.Event) {
			if p := ev.Object.(*corev1.Pod); ev.Type == client.Modified && p.Status.Phase == corev1.PodFailed && p.Status.Conditions[0].Reason == "DeletionByPodGC" {
				failed++
			}
		}); err != nil {
			t.Fatal(err)
		}
		c := New(Config{Tools: controllertest.Tools(f)})
		for i := range 5 {
			if _, err := c.Reconcile(t.Context(), all); err != nil {
				t.Fatal(err)
			}
			if n := len(client.CachedList[*corev1.Pod](f.Cache(), "")); i < 2 && n != 2 {
				t.Fatalf("%d pods after %d s", n, 20*i)
			}
			time.Sleep(20 * time.Second)
			f.Put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "back"}})
		}
		left := fmt.Sprint(len(client.CachedList[*corev1.Pod](f.Cache(), "")), failed)
		if left != "1 1" {
			t.Errorf("pods left and marked: %s", left)
		}
	})
}

// A removal that is refused for a while leaves one condition on the pod.
func TestRefusedRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := client.NewFake(pod("lost", "gone", corev1.PodRunning, 0))
		f.Reject(func(v client.Verb, r *schema.Resource, _ string, o schema.Object) error {
			if v == client.VerbDelete {
				return apierrors.NewForbidden(r.GroupResource(), o.GetName(), errors.New("not now"))
			}
			return nil
		})
		c := New(Config{Tools: controllertest.Tools(f)})
		for range 10 {
			_, _ = c.Reconcile(t.Context(), all)
			time.Sleep(time.Minute)
			p := client.CachedList[*corev1.Pod](f.Cache(), "")[0].DeepCopy()
			p.Status.Phase = corev1.PodRunning // a node that is not quite gone
			f.Put(p)
		}
		if p := client.CachedList[*corev1.Pod](f.Cache(), "")[0]; len(p.Status.Conditions) != 1 {
			t.Errorf("conditions %+v", p.Status.Conditions)
		}
	})
}
