package poddisruption

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestPlan(t *testing.T) {
	now := time.Unix(1e9, 0)
	for _, c := range []struct {
		name                       string
		least, most                string // minAvailable, maxUnavailable
		scale                      int32
		pods, ready                int
		expected, desired, allowed int32
	}{
		{"a number available", "2", "", 0, 3, 3, 3, 2, 1},
		{"a share available", "50%", "", 5, 5, 5, 5, 3, 2},
		{"a number unavailable", "", "1", 3, 3, 3, 3, 2, 1},
		{"a share unavailable", "", "30%", 10, 10, 9, 10, 7, 2},
		{"not all are there", "", "1", 5, 3, 3, 5, 4, 0},
		{"one down", "", "1", 3, 3, 2, 3, 2, 0},
		{"no pods", "0", "", 0, 0, 0, 0, 0, 0},
	} {
		b := &policyv1.PodDisruptionBudget{}
		if c.least != "" {
			v := intstr.Parse(c.least)
			b.Spec.MinAvailable = &v
		} else {
			v := intstr.Parse(c.most)
			b.Spec.MaxUnavailable = &v
		}
		var pods []*corev1.Pod
		for i := range c.pods {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i)}}
			if i < c.ready {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			}
			pods = append(pods, p)
		}
		d, err := plan(b, pods, func(*corev1.Pod) (types.UID, int32, error) { return "set", c.scale, nil }, now)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		s := d.status
		if s.ExpectedPods != c.expected || s.DesiredHealthy != c.desired || s.DisruptionsAllowed != c.allowed || int(s.CurrentHealthy) != c.ready {
			t.Errorf("%s: expected %d desired %d healthy %d allowed %d, want %d %d %d %d", c.name, s.ExpectedPods, s.DesiredHealthy, s.CurrentHealthy, s.DisruptionsAllowed, c.expected, c.desired, c.ready, c.allowed)
		}
	}
}

// An admitted eviction counts as gone until it is, or two minutes are over.
func TestAdmittedEvictionsCount(t *testing.T) {
	now := time.Unix(1e9, 0)
	one := intstr.FromInt32(1)
	b := &policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &one}}
	b.Status.DisruptedPods = map[string]metav1.Time{"p": metav1.NewTime(now), "gone": metav1.NewTime(now)}
	pods := []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}}
	scale := func(*corev1.Pod) (types.UID, int32, error) { return "set", 1, nil }
	d, err := plan(b, pods, scale, now.Add(time.Minute))
	if err != nil || d.status.CurrentHealthy != 0 || len(d.status.DisruptedPods) != 1 || d.again != time.Minute {
		t.Errorf("after a minute: %+v, again in %v, %v", d.status, d.again, err)
	}
	d, err = plan(b, pods, scale, now.Add(3*time.Minute))
	if err != nil || d.status.CurrentHealthy != 1 || len(d.status.DisruptedPods) != 0 || d.again != 0 {
		t.Errorf("after three minutes: %+v, again in %v, %v", d.status, d.again, err)
	}
}
