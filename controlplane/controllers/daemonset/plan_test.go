package daemonset

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func node(name string, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"disk": "ssd"}}, Spec: corev1.NodeSpec{Taints: taints}}
}

func TestFits(t *testing.T) {
	taint := func(key string, e corev1.TaintEffect) corev1.Taint { return corev1.Taint{Key: key, Effect: e} }
	for _, c := range []struct {
		name      string
		node      *corev1.Node
		spec      corev1.PodSpec
		run, stay bool
	}{
		{"a plain node", node("a"), corev1.PodSpec{}, true, true},
		{"a node that does not match", node("a"), corev1.PodSpec{NodeSelector: map[string]string{"disk": "hdd"}}, false, false},
		{"a node that matches", node("a"), corev1.PodSpec{NodeSelector: map[string]string{"disk": "ssd"}}, true, true},
		{"another than the named", node("a"), corev1.PodSpec{NodeName: "b"}, false, false},
		{"a cordoned node", node("a", taint(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)), corev1.PodSpec{}, true, true},
		{"an unreachable node", node("a", taint(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)), corev1.PodSpec{}, true, true},
		{"a node without network", node("a", taint(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule)), corev1.PodSpec{}, false, true},
		{"the same, of the host's network", node("a", taint(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule)), corev1.PodSpec{HostNetwork: true}, true, true},
		{"a node of others", node("a", taint("team", corev1.TaintEffectNoSchedule)), corev1.PodSpec{}, false, true},
		{"a node that throws out", node("a", taint("team", corev1.TaintEffectNoExecute)), corev1.PodSpec{}, false, false},
		{"a node that would rather not", node("a", taint("team", corev1.TaintEffectPreferNoSchedule)), corev1.PodSpec{}, true, true},
		{"tolerated", node("a", taint("team", corev1.TaintEffectNoExecute)), corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: "team", Operator: corev1.TolerationOpExists}}}, true, true},
	} {
		ds := &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: c.spec}}}
		if got := newMatcher(ds).fits(c.node); got != (fit{c.run, c.stay}) {
			t.Errorf("%s: %+v, want run %v stay %v", c.name, got, c.run, c.stay)
		}
	}
}

func TestPodIsMeantForOneNode(t *testing.T) {
	ds := &appsv1.DaemonSet{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "agent", UID: "u"}}
	ds.Spec.Template.Labels = map[string]string{"app": "agent"}
	p := newPod(ds, "n3", "hash")
	if nodeOf(p) != "n3" || p.Spec.NodeName != "" || p.Labels[appsv1.ControllerRevisionHashLabelKey] != "hash" || len(p.Spec.Tolerations) != 6 || p.GenerateName != "agent-" {
		t.Errorf("pod: %+v", p)
	}
	if len(ds.Spec.Template.Labels) != 1 {
		t.Errorf("the template was changed: %v", ds.Spec.Template.Labels)
	}
}

// rollout is a world of n nodes whose pods begin to serve one step after they
// were created.
func rollout(n int, surge, unavailable intstr.IntOrString) (w world, step func() (fewest, most int)) {
	w = world{hash: "new", pods: map[string][]*corev1.Pod{}, now: time.Unix(1e9, 0), ds: &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{
		UpdateStrategy: appsv1.DaemonSetUpdateStrategy{RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxSurge: &surge, MaxUnavailable: &unavailable}}}}}
	pod := func(node, hash string, ready corev1.ConditionStatus) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: node + hash, Labels: map[string]string{appsv1.ControllerRevisionHashLabelKey: hash}}, Spec: corev1.PodSpec{NodeName: node},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}}}
	}
	for i := range n {
		name := fmt.Sprintf("n%d", i)
		w.nodes = append(w.nodes, node(name))
		w.pods[name] = []*corev1.Pod{pod(name, "old", corev1.ConditionTrue)}
	}
	return w, func() (fewest, most int) {
		d := plan(w)
		for _, p := range d.remove {
			of := w.pods[p.Spec.NodeName]
			for i := range of {
				if of[i] == p {
					w.pods[p.Spec.NodeName] = append(of[:i:i], of[i+1:]...)
					break
				}
			}
		}
		fresh := []*corev1.Pod{}
		for _, name := range d.create {
			p := pod(name, "new", corev1.ConditionFalse)
			fresh = append(fresh, p)
			w.pods[name] = append(w.pods[name], p)
		}
		for _, pods := range w.pods {
			for _, p := range pods {
				most++
				if w.available(p) {
					fewest++
				}
			}
		}
		for _, p := range fresh {
			p.Status.Conditions[0].Status = corev1.ConditionTrue
		}
		return fewest, most
	}
}

// A rollout keeps to maxUnavailable, or to maxSurge, and comes to its end.
func TestRollout(t *testing.T) {
	for _, c := range []struct{ surge, unavailable, least, most int }{
		{0, 1, 9, 10}, {0, 3, 7, 10}, {2, 0, 10, 12}, {10, 0, 10, 20},
	} {
		w, step := rollout(10, intstr.FromInt(c.surge), intstr.FromInt(c.unavailable))
		steps := 0
		for ; steps < 100; steps++ {
			s := plan(w).status
			if s.UpdatedNumberScheduled == 10 && s.NumberAvailable == 10 && s.CurrentNumberScheduled == 10 {
				break
			}
			fewest, most := step()
			if fewest < c.least || most > c.most {
				t.Fatalf("surge %d unavailable %d, step %d: %d available of %d, want %d to %d", c.surge, c.unavailable, steps, fewest, most, c.least, c.most)
			}
		}
		if steps == 100 {
			t.Errorf("surge %d unavailable %d: not done after %d steps", c.surge, c.unavailable, steps)
		}
	}
}

// A pod that fails at once is replaced at once the first time, then after one
// second, two, four, ... and at once again after a long quiet time.
func TestRetriesSlowDown(t *testing.T) {
	r := newRetries()
	now := time.Unix(1e9, 0)
	for i, want := range []time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second} {
		uid := types.UID(fmt.Sprint("pod", i))
		if got := r.pause("ds", "n1", uid, now); got != want {
			t.Errorf("failure %d: %v, want %v", i, got, want)
		}
		now = now.Add(want)
		if got := r.pause("ds", "n1", uid, now); got != 0 {
			t.Errorf("failure %d after its pause: %v", i, got)
		}
	}
	if got := r.pause("ds", "n1", "late", now.Add(time.Hour)); got != 0 {
		t.Errorf("after an hour: %v", got)
	}
}
