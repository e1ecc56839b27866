package tainteviction

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller/controllertest"
	"github.com/writ-os/writ/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func tolerating(key string, op corev1.TolerationOperator, value string, seconds *int64) corev1.Toleration {
	return corev1.Toleration{Key: key, Operator: op, Value: value, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: seconds}
}

func TestEviction(t *testing.T) {
	begin := time.Unix(1e9, 0)
	at := metav1.NewTime(begin)
	ten, five, minus := int64(10), int64(5), int64(-1)
	gone := corev1.Taint{Key: "gone", Value: "v", Effect: corev1.TaintEffectNoExecute, TimeAdded: &at}
	other := corev1.Taint{Key: "other", Effect: corev1.TaintEffectNoExecute, TimeAdded: &at}
	for _, c := range []struct {
		name        string
		taints      []corev1.Taint
		tolerations []corev1.Toleration
		evicted     bool
		after       time.Duration
	}{
		{"not tolerated", []corev1.Taint{gone}, nil, true, 0},
		{"another value", []corev1.Taint{gone}, []corev1.Toleration{tolerating("gone", corev1.TolerationOpEqual, "w", nil)}, true, 0},
		{"for ever", []corev1.Taint{gone}, []corev1.Toleration{tolerating("gone", corev1.TolerationOpEqual, "v", nil)}, false, 0},
		{"everything", []corev1.Taint{gone, other}, []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, false, 0},
		{"for a time", []corev1.Taint{gone}, []corev1.Toleration{tolerating("gone", corev1.TolerationOpExists, "", &ten)}, true, 10 * time.Second},
		{"for the shorter of two times", []corev1.Taint{gone}, []corev1.Toleration{tolerating("gone", corev1.TolerationOpExists, "", &ten), tolerating("", corev1.TolerationOpExists, "", &five)}, true, 5 * time.Second},
		{"one of two taints", []corev1.Taint{gone, other}, []corev1.Toleration{tolerating("gone", corev1.TolerationOpExists, "", &ten)}, true, 0},
		{"for less than no time", []corev1.Taint{gone}, []corev1.Toleration{tolerating("gone", corev1.TolerationOpExists, "", &minus)}, true, 0},
		{"of another effect", []corev1.Taint{gone}, []corev1.Toleration{{Key: "gone", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}, true, 0},
	} {
		end, evicted := eviction(c.taints, &corev1.Pod{Spec: corev1.PodSpec{Tolerations: c.tolerations}})
		if evicted != c.evicted || evicted && end.Sub(begin) != c.after {
			t.Errorf("%s: %v after %v, want %v after %v", c.name, evicted, end.Sub(begin), c.evicted, c.after)
		}
	}
}

// A pod goes when its time is up, and stays if the taint goes before.
func TestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		five := int64(300)
		pod := func(name, node string) *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: node, Tolerations: []corev1.Toleration{tolerating("gone", corev1.TolerationOpExists, "", &five)}}}
		}
		tainted := func(name string) *corev1.Node {
			return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "gone", Effect: corev1.TaintEffectNoExecute}}}}
		}
		f := client.NewFake(tainted("a"), tainted("b"), pod("on-a", "a"), pod("on-b", "b"))
		controllertest.Start(t, f, New(controllertest.Tools(f)), 1)
		time.Sleep(299 * time.Second)
		deleted := func(name string) bool {
			p, ok := client.Cached[*corev1.Pod](f.Cache(), schema.Key{Namespace: "default", Name: name})
			return !ok || p.DeletionTimestamp != nil
		}
		if deleted("on-a") || deleted("on-b") {
			t.Error("evicted before the time was up")
		}
		f.Put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b"}})
		time.Sleep(2 * time.Second)
		if !deleted("on-a") || deleted("on-b") {
			t.Errorf("after the time: on the tainted node %v, on the other %v", deleted("on-a"), deleted("on-b"))
		}
		if p, ok := client.Cached[*corev1.Pod](f.Cache(), schema.Key{Namespace: "default", Name: "on-a"}); ok {
			if c := p.Status.Conditions; len(c) != 1 || c[0].Type != corev1.DisruptionTarget || c[0].Reason != "DeletionByTaintManager" {
				t.Errorf("conditions: %+v", c)
			}
		}
	})
}

// A deletion that is refused for a while leaves one condition on the pod, with
// the time of the first, and keeps no other pod.
func TestRefusedEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := metav1.Now()
		pod := func(name string) *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: "n"}}
		}
		f := client.NewFake(pod("a"), pod("b"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"},
			Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "gone", Effect: corev1.TaintEffectNoExecute, TimeAdded: &at}}}})
		f.Reject(func(v client.Verb, _ *schema.Resource, _ string, o schema.Object) error {
			if v == client.VerbDelete && o.GetName() == "a" {
				return apierrors.NewForbidden(schema.ResourceOf(o).GroupResource(), "a", errors.New("not now"))
			}
			return nil
		})
		begin := time.Now()
		controllertest.Start(t, f, New(controllertest.Tools(f)), 1)
		time.Sleep(time.Hour)
		got := client.CachedList[*corev1.Pod](f.Cache(), "default")
		if len(got) != 2 || got[1].DeletionTimestamp == nil {
			t.Fatalf("the other pod is kept: %d", len(got))
		}
		if c := got[0].Status.Conditions; len(c) != 1 || c[0].Type != corev1.DisruptionTarget || c[0].LastTransitionTime.Sub(begin) > time.Minute {
			t.Errorf("conditions %+v", c)
		}
	})
}
