package daemonset

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller/controllertest"
	"github.com/writ-os/writ/schema"
)

func set(name string, spec corev1.PodSpec) *appsv1.DaemonSet {
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	ds.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	ds.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}}, Spec: spec}
	return ds
}

// A node wakes the DaemonSets to which its change means something, and no other.
func TestNodeWakesWhomItConcerns(t *testing.T) {
	ssd := corev1.PodSpec{NodeSelector: map[string]string{"disk": "ssd"}}
	gpu := corev1.PodSpec{NodeSelector: map[string]string{"gpu": "yes"}}
	onIt := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "gpu", UID: "gpu", Controller: ptr.To(true)}}}, Spec: corev1.PodSpec{NodeName: "left"}}
	tolerant := corev1.PodSpec{Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}
	f := client.NewFake(set("all", corev1.PodSpec{}), set("ssd", ssd), set("gpu", gpu), set("tolerant", tolerant), onIt)
	c := New(controllertest.Tools(f))
	changed := func(change func(*corev1.Node)) *corev1.Node {
		n := node("a")
		change(n)
		return n
	}
	taint := corev1.Taint{Key: "team", Effect: corev1.TaintEffectNoSchedule}
	for _, tt := range []struct {
		name string
		ev   client.Event
		want []string
	}{
		{"comes", client.Event{Type: client.Added, Object: node("a")}, []string{"all", "ssd", "tolerant"}},
		{"goes", client.Event{Type: client.Deleted, Object: node("a")}, []string{"all", "ssd", "tolerant"}},
		{"comes, and has a pod that does not belong there", client.Event{Type: client.Added, Object: node("left")}, []string{"all", "gpu", "ssd", "tolerant"}},
		{"a heartbeat", client.Event{Type: client.Modified, Old: node("a"), Object: changed(func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, LastHeartbeatTime: metav1.Now()}}
		})}, nil},
		{"a label that nobody asks for", client.Event{Type: client.Modified, Old: node("a"), Object: changed(func(n *corev1.Node) { n.Labels["rack"] = "7" })}, nil},
		{"a label", client.Event{Type: client.Modified, Old: node("a"), Object: changed(func(n *corev1.Node) { n.Labels["gpu"] = "yes" })}, []string{"gpu"}},
		{"another disk", client.Event{Type: client.Modified, Old: node("a"), Object: changed(func(n *corev1.Node) { n.Labels["disk"] = "hdd" })}, []string{"ssd"}},
		{"a taint", client.Event{Type: client.Modified, Old: node("a"), Object: changed(func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{taint} })}, []string{"all", "ssd"}},
		{"a taint that all daemons bear", client.Event{Type: client.Modified, Old: node("a"), Object: changed(func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}}
		})}, nil},
		{"a change of nobody knows what", client.Event{Type: client.Modified, Object: node("a")}, []string{"all", "gpu", "ssd", "tolerant"}},
	} {
		var got []string
		for _, k := range c.wakeByNode(tt.ev) {
			got = append(got, k.Name)
		}
		slices.Sort(got)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: woke %v, want %v", tt.name, got, tt.want)
		}
	}
}

// What is remembered of a DaemonSet is of its newest state, and ends with it.
func TestMatchersFollow(t *testing.T) {
	f := client.NewFake(set("a", corev1.PodSpec{}))
	c := New(controllertest.Tools(f))
	comes := func() int { return len(c.wakeByNode(client.Event{Type: client.Added, Object: node("n")})) }
	if comes() != 1 {
		t.Fatal("a node that fits woke nobody")
	}
	next := set("a", corev1.PodSpec{NodeSelector: map[string]string{"gpu": "yes"}})
	f.Put(next)
	if comes() != 0 {
		t.Error("a node that fits no more woke it")
	}
	if n := len(c.known.of); n != 1 {
		t.Errorf("%d are remembered of one", n)
	}
	c.Watches()[0].Map(client.Event{Type: client.Deleted, Object: next})
	if n := len(c.known.of); n != 0 {
		t.Errorf("%d are remembered of none", n)
	}
}

// big is a DaemonSet that runs on 1,000 nodes and asks for two labels.
func big() world {
	ds := set("agent", corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: "disk", Operator: corev1.NodeSelectorOpIn, Values: []string{"ssd", "nvme"}}, {Key: "gpu", Operator: corev1.NodeSelectorOpDoesNotExist}}}}}}}})
	w := world{ds: ds, hash: "h", pods: map[string][]*corev1.Pod{}, now: time.Unix(1e9, 0)}
	for i := range 1000 {
		n := node(fmt.Sprint("n", i))
		p := newPod(ds, n.Name, "h")
		p.Name, p.Spec.NodeName = "p-"+n.Name, n.Name
		w.nodes, w.pods[n.Name] = append(w.nodes, n), []*corev1.Pod{p}
	}
	return w
}

// A look at a DaemonSet reads its affinity once, however many nodes there are.
func TestAffinityIsReadOnce(t *testing.T) {
	few, many := big(), big()
	few.nodes = few.nodes[:500]
	allocs := func(w world) float64 { return testing.AllocsPerRun(5, func() { plan(w) }) }
	if perNode := (allocs(many) - allocs(few)) / 500; perNode > 6 {
		t.Errorf("%.1f allocations a node", perNode)
	}
}

func BenchmarkPlan1000Nodes(b *testing.B) {
	w := big()
	b.ReportAllocs()
	for b.Loop() {
		plan(w)
	}
}

// BenchmarkNodeEvent is a label that nobody asks for, and 50 DaemonSets.
func BenchmarkNodeEvent(b *testing.B) {
	f := client.NewFake()
	for i := range 50 {
		ds := *big().ds
		ds.Name = fmt.Sprint("ds-", i)
		ds.UID = types.UID(ds.Name)
		f.Put(&ds)
	}
	c := New(controllertest.Tools(f))
	old, next := node("a"), node("a")
	next.Labels = map[string]string{"disk": "ssd", "rack": "7"}
	ev := client.Event{Type: client.Modified, Old: old, Object: next}
	b.ReportAllocs()
	var keys []schema.Key
	for b.Loop() {
		keys = c.wakeByNode(ev)
	}
	b.ReportMetric(float64(len(keys)), "keys")
}
