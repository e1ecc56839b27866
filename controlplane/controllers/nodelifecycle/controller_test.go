package nodelifecycle

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/controlplane/controller/controllertest"
	"github.com/writ-os/writ/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func node(name string, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: ready, Reason: "KubeletReady"}, {Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse},
	}}}
}

func runningPod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

// watchOver runs the controller in a bubble until the test is over.
func watchOver(t *testing.T, f *client.Fake) {
	controllertest.Start(t, f, New(Config{Tools: controllertest.Tools(f)}), 2)
	synctest.Wait()
}

// renew writes a node's lease, with a clock that is an hour slow.
func renew(t *testing.T, f *client.Fake, node string) {
	t.Helper()
	at := metav1.NewMicroTime(time.Now().Add(-time.Hour))
	f.Put(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: node}, Spec: coordinationv1.LeaseSpec{RenewTime: &at}})
}

func get(t *testing.T, f *client.Fake, name string) *corev1.Node {
	t.Helper()
	n, ok := client.Cached[*corev1.Node](f.Cache(), schema.Key{Name: name})
	if !ok {
		t.Fatalf("no node %s", name)
	}
	return n
}

func taintsOf(n *corev1.Node) string {
	out := ""
	for _, t := range n.Spec.Taints {
		out += t.Key + ":" + string(t.Effect) + " "
	}
	return out
}

// A node that renews its lease stays ready, whatever its clock says. One that
// falls silent is Unknown after 40 s, tainted, its pods out of service; when it
// speaks again all is taken back but what the node itself reports.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := client.NewFake(node("a", corev1.ConditionTrue), node("b", corev1.ConditionTrue), runningPod("p", "a"))
		watchOver(t, f)
		speak := func(names ...string) {
			for _, n := range names {
				renew(t, f, n)
			}
			time.Sleep(10 * time.Second)
		}
		for range 30 {
			speak("a", "b")
		}
		if s := readyCondition(get(t, f, "a")).Status; s != corev1.ConditionTrue {
			t.Fatalf("a node that speaks is %s", s)
		}
		for range 2 {
			speak("b")
		}
		renew(t, f, "b")
		time.Sleep(9 * time.Second) // 39 s since the last word of a
		if s := readyCondition(get(t, f, "a")).Status; s != corev1.ConditionTrue {
			t.Fatalf("silent for less than 40 s: %s", s)
		}
		speak("b")
		n := get(t, f, "a")
		if c := readyCondition(n); c.Status != corev1.ConditionUnknown || c.Reason != "NodeStatusUnknown" || c.Message != "Kubelet stopped posting node status." {
			t.Fatalf("silent for 49 s: %+v", c)
		}
		if c := condition(n, corev1.NodeDiskPressure); c == nil || c.Reason != "NodeStatusNeverUpdated" {
			t.Errorf("a condition never reported: %+v", c)
		}
		if got := taintsOf(n); got != "node.kubernetes.io/unreachable:NoSchedule node.kubernetes.io/unreachable:NoExecute " {
			t.Errorf("taints: %s", got)
		}
		p, _ := client.Cached[*corev1.Pod](f.Cache(), schema.Key{Namespace: "default", Name: "p"})
		if c := p.Status.Conditions[0]; c.Status != corev1.ConditionFalse || c.Reason != "NodeNotReady" {
			t.Errorf("pod: %+v", c)
		}
		if s := readyCondition(get(t, f, "b")).Status; s != corev1.ConditionTrue {
			t.Errorf("the other node is %s", s)
		}

		back := get(t, f, "a").DeepCopy()
		back.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}
		if _, err := client.UpdateStatus(t.Context(), f, back); err != nil {
			t.Fatal(err)
		}
		speak("a", "b")
		if got := taintsOf(get(t, f, "a")); got != "" {
			t.Errorf("taints of a node that is back: %s", got)
		}
	})
}

// Where every node is silent it is rather us who are cut off: nothing is
// tainted for eviction.
func TestAllSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := client.NewFake(node("a", corev1.ConditionTrue))
		watchOver(t, f)
		time.Sleep(5 * time.Minute)
		n := get(t, f, "a")
		if readyCondition(n).Status != corev1.ConditionUnknown {
			t.Fatalf("condition: %+v", readyCondition(n))
		}
		if got := taintsOf(n); got != "node.kubernetes.io/unreachable:NoSchedule " {
			t.Errorf("taints: %s", got)
		}
	})
}

// A silent node is not looked at for nothing, and what changes something for it
// is acted on at once: a pod that says it serves, a node that speaks again.
func TestSilentNodeIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := client.NewFake(node("a", corev1.ConditionTrue), node("b", corev1.ConditionTrue), runningPod("p", "a"))
		watchOver(t, f)
		time.Sleep(time.Hour + time.Second)
		if got := taintsOf(get(t, f, "a")); got != "node.kubernetes.io/unreachable:NoSchedule " {
			t.Fatalf("taints while all are silent: %s", got)
		}
		key := schema.Key{Namespace: "default", Name: "p"}
		serving := func() corev1.ConditionStatus {
			synctest.Wait()
			p, _ := client.Cached[*corev1.Pod](f.Cache(), key)
			return p.Status.Conditions[0].Status
		}
		p, _ := client.Cached[*corev1.Pod](f.Cache(), key)
		again := p.DeepCopy()
		again.Status.Conditions[0].Status = corev1.ConditionTrue
		if _, err := client.UpdateStatus(t.Context(), f, again); err != nil {
			t.Fatal(err)
		}
		if got := serving(); got != corev1.ConditionFalse {
			t.Errorf("a pod of a silent node serves: %s", got)
		}

		back := get(t, f, "b").DeepCopy()
		back.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}}
		if _, err := client.UpdateStatus(t.Context(), f, back); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := taintsOf(get(t, f, "a")); got != "node.kubernetes.io/unreachable:NoSchedule node.kubernetes.io/unreachable:NoExecute " {
			t.Errorf("taints of the silent node once another speaks: %s", got)
		}
		time.Sleep(DefaultGrace)
		synctest.Wait()
		if got := taintsOf(get(t, f, "a")); got != "node.kubernetes.io/unreachable:NoSchedule " {
			t.Errorf("taints once all are silent again: %s", got)
		}
	})
}

// Nodes that go silent together are tainted for eviction one in ten seconds.
func TestEvictionIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := client.NewFake(node("a", corev1.ConditionTrue), node("b", corev1.ConditionTrue), node("c", corev1.ConditionTrue), node("up", corev1.ConditionTrue))
		watchOver(t, f)
		evicted := func() (n int) {
			for _, name := range []string{"a", "b", "c"} {
				if hasEvictionTaint(get(t, f, name)) {
					n++
				}
			}
			return n
		}
		for i := range 9 {
			renew(t, f, "up")
			time.Sleep(5 * time.Second)
			if n := evicted(); i < 7 && n > 0 {
				t.Fatalf("%d tainted after %d s", n, 5*(i+1))
			}
		}
		renew(t, f, "up")
		if n := evicted(); n != 1 {
			t.Errorf("%d tainted after 45 s", n)
		}
		time.Sleep(30 * time.Second)
		if n := evicted(); n != 3 {
			t.Errorf("%d tainted after 75 s", n)
		}
	})
}

// lists counts how often all nodes are looked at.
type lists struct {
	client.Cache
	n atomic.Int64
}

func (l *lists) List(r *schema.Resource, namespace string) []schema.Object {
	if r == schema.ResourceFor[*corev1.Node]() {
		l.n.Add(1)
	}
	return l.Cache.List(r, namespace)
}

// Of many nodes that wait for their turn only the one whose turn it is looks
// whether all are silent.
func TestWaitingIsCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := client.NewFake(node("up", corev1.ConditionTrue))
		for i := range 200 {
			f.Put(node(fmt.Sprint("n", i), corev1.ConditionTrue))
		}
		cache := &lists{Cache: f.Cache()}
		tools := controllertest.Tools(f)
		tools.Cache = cache
		r := New(Config{Tools: tools})
		controllertest.Run(t, controller.Config{Reconciler: r, Watches: r.Watches(), Cache: f.Cache(), Workers: 2, Look: -1})
		for range 30 {
			renew(t, f, "up")
			time.Sleep(10 * time.Second)
		}
		synctest.Wait()
		tainted := 0
		for i := range 200 {
			if hasEvictionTaint(get(t, f, fmt.Sprint("n", i))) {
				tainted++
			}
		}
		if tainted < 24 || tainted > 27 {
			t.Errorf("%d nodes tainted in five minutes, the first after 40 s", tainted)
		}
		// Once for each turn, once for each event of a node that has its taint, and once at first.
		if got := cache.n.Load(); got > int64(5*tainted) {
			t.Errorf("all nodes were looked at %d times for %d turns", got, tainted)
		}
	})
}

// A turn whose write was refused is not lost: the node is tainted as soon as
// writes go through, not ten seconds later, and none is tainted too early.
func TestRefusedTaintKeepsItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := client.NewFake(node("a", corev1.ConditionTrue), node("b", corev1.ConditionTrue), node("up", corev1.ConditionTrue))
		refused := 0
		f.Reject(func(v client.Verb, r *schema.Resource, sub string, o schema.Object) error {
			if n, ok := o.(*corev1.Node); ok && v == client.VerbUpdate && sub == "" && hasEvictionTaint(n) && refused < 5 {
				refused++
				return apierrors.NewInternalError(errors.New("no space"))
			}
			return nil
		})
		watchOver(t, f)
		for range 8 {
			renew(t, f, "up")
			time.Sleep(5 * time.Second)
		}
		renew(t, f, "up")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if refused != 5 || hasEvictionTaint(get(t, f, "a")) == hasEvictionTaint(get(t, f, "b")) {
			t.Errorf("after %d refusals: a is tainted %s, b %s", refused, taintsOf(get(t, f, "a")), taintsOf(get(t, f, "b")))
		}
		time.Sleep(9 * time.Second)
		if !hasEvictionTaint(get(t, f, "a")) || !hasEvictionTaint(get(t, f, "b")) {
			t.Errorf("ten seconds later: a is tainted %s, b %s", taintsOf(get(t, f, "a")), taintsOf(get(t, f, "b")))
		}
	})
}

func TestTaintsOfConditions(t *testing.T) {
	now := time.Unix(1e9, 0)
	n := node("a", corev1.ConditionFalse)
	n.Spec.Unschedulable = true
	n.Status.Conditions[1].Status = corev1.ConditionTrue
	n.Spec.Taints = []corev1.Taint{
		{Key: "team", Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeDiskPressure, Effect: corev1.TaintEffectNoSchedule},
	}
	n.Spec.Taints = taints(n, true, now)
	want := "team:NoSchedule node.kubernetes.io/memory-pressure:NoSchedule node.kubernetes.io/not-ready:NoSchedule node.kubernetes.io/not-ready:NoExecute node.kubernetes.io/unschedulable:NoSchedule "
	if got := taintsOf(n); got != want {
		t.Errorf("taints:\n%s\nwant\n%s", got, want)
	}
	for _, x := range n.Spec.Taints[1:] {
		if x.TimeAdded == nil || !x.TimeAdded.Time.Equal(now) {
			t.Errorf("taint without its time: %+v", x)
		}
	}
}
