package scheduler

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/schema"
)

func TestDecideExplains(t *testing.T) {
	for _, tt := range []struct {
		name  string
		pod   *corev1.Pod
		nodes []*corev1.Node
		want  string
	}{
		{"no nodes", pod("p"), nil, "no nodes available to schedule pods"},
		{"two reasons", pod("p", asks("2", "1Mi")),
			[]*corev1.Node{node("a", "1", "1Gi"), node("b", "1", "1Gi"), node("c", "4", "1Gi", tainted("k", "v", corev1.TaintEffectNoSchedule))},
			"0/3 nodes are available: 1 node(s) had untolerated taint {k: v}, 2 Insufficient cpu. preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling, 2 No preemption victims found for incoming pod."},
		{"a node short of two things", pod("p", asks("2", "2Gi")), []*corev1.Node{node("a", "1", "1Gi")},
			"0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."},
		{"named node is short", pod("p", onlyNode("a"), asks("2", "1Mi")), []*corev1.Node{node("a", "1", "1Gi"), node("b", "8", "1Gi")},
			"0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't satisfy plugin(s) [NodeAffinity]. preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster()
			for _, n := range tt.nodes {
				c.setNode(n)
			}
			p := pendingOf(t, tt.pod)
			d := (&decider{}).decide(p, c.nodes, 0)
			if d.node != nil {
				t.Fatalf("got node %s", d.node.name)
			}
			d.refusal.preemption = preempt(p, d.refusal, c).text
			if got := d.refusal.String(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestDecideKeepsFilters places random pods on random clusters, one after the
// other, and checks from the objects alone that nothing was ever overcommitted
// or put where it must not be, and that every refusal accounts for every node.
func TestDecideKeepsFilters(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			c := newCluster()
			for i := range 1 + r.IntN(150) {
				c.setNode(randomNode(r, i))
			}
			d, start := &decider{}, 0
			on := map[string][]*corev1.Pod{}
			for i := range 300 {
				p := pendingOf(t, randomPod(r, i))
				dec := d.decide(p, c.nodes, start)
				start = dec.next
				if dec.node == nil {
					checkRefusal(t, p, dec.refusal, c)
					continue
				}
				c.assume(p, dec.node)
				on[dec.node.name] = append(on[dec.node.name], p.pod)
				if r.IntN(4) == 0 { // some leave again
					list := on[dec.node.name]
					gone := list[0]
					on[dec.node.name] = list[1:]
					c.removePod(schema.KeyOf(gone))
				}
			}
			for _, n := range c.nodes {
				checkNode(t, n.node, on[n.name])
			}
		})
	}
}

func checkRefusal(t *testing.T, p *podInfo, why *refusal, c *cluster) {
	t.Helper()
	if why.nodes != len(c.nodes) {
		t.Errorf("refusal counts %d of %d nodes", why.nodes, len(c.nodes))
	}
	for _, n := range c.nodes {
		if fits(p, n) {
			t.Errorf("%s refused (%s), but fits on %s", p.key, why, n.name)
		}
	}
	text := why.String()
	if !strings.HasPrefix(text, fmt.Sprintf("0/%d nodes are available: ", len(c.nodes))) {
		t.Errorf("refusal: %s", text)
	}
	sum := 0
	for _, n := range why.reasons {
		sum += n
	}
	if sum < why.refused {
		t.Errorf("%d nodes refused, only %d reasons: %s", why.refused, sum, text)
	}
}

// checkNode adds up the pods of a node without the scheduler's own accounts.
func checkNode(t *testing.T, n *corev1.Node, pods []*corev1.Pod) {
	t.Helper()
	var cpu, memory int64
	ports := map[string]string{}
	for _, p := range pods {
		req := p.Spec.Containers[0].Resources.Requests
		cpu += req.Cpu().MilliValue()
		memory += req.Memory().Value()
		for _, port := range p.Spec.Containers[0].Ports {
			id := fmt.Sprint(port.Protocol, port.HostPort)
			if other, ok := ports[id]; ok {
				t.Errorf("%s: port %s of %s and %s", n.Name, id, other, p.Name)
			}
			ports[id] = p.Name
		}
		if v, ok := p.Spec.NodeSelector["disk"]; ok && n.Labels["disk"] != v {
			t.Errorf("%s on %s in spite of its selector", p.Name, n.Name)
		}
		if n.Spec.Unschedulable {
			t.Errorf("%s on cordoned %s", p.Name, n.Name)
		}
		if len(n.Spec.Taints) > 0 && len(p.Spec.Tolerations) == 0 {
			t.Errorf("%s on tainted %s", p.Name, n.Name)
		}
	}
	if cpu > n.Status.Allocatable.Cpu().MilliValue() || memory > n.Status.Allocatable.Memory().Value() || int64(len(pods)) > n.Status.Allocatable.Pods().Value() {
		t.Errorf("%s overcommitted: %dm of %s, %d of %s, %d of %s pods", n.Name, cpu, n.Status.Allocatable.Cpu(), memory, n.Status.Allocatable.Memory(), len(pods), n.Status.Allocatable.Pods())
	}
}

func randomNode(r *rand.Rand, i int) *corev1.Node {
	n := node(numbered("n", i), strconv.Itoa(1+r.IntN(4)), fmt.Sprintf("%dGi", 1+r.IntN(4)), maxPods(strconv.Itoa(1+r.IntN(8))),
		label("disk", []string{"ssd", "hdd"}[r.IntN(2)]), label(corev1.LabelTopologyZone, []string{"", "a", "b"}[r.IntN(3)]))
	if r.IntN(6) == 0 {
		cordoned(n)
	}
	if r.IntN(4) == 0 {
		tainted("dedicated", "x", corev1.TaintEffectNoSchedule)(n)
	}
	return n
}

func randomPod(r *rand.Rand, i int) *corev1.Pod {
	p := pod(numbered("p", i), owned(types.UID([]string{"a", "b", "c"}[r.IntN(3)])))
	if r.IntN(5) > 0 {
		asks(fmt.Sprintf("%dm", 100*r.IntN(20)), fmt.Sprintf("%dMi", 128*r.IntN(12)))(p)
	}
	if r.IntN(4) == 0 {
		selecting("disk", []string{"ssd", "nvme"}[r.IntN(2)])(p)
	}
	if r.IntN(5) == 0 {
		takes("", int32(8000+r.IntN(3)), corev1.ProtocolTCP)(p)
	}
	if r.IntN(3) == 0 {
		tolerating(corev1.Toleration{Key: "dedicated", Operator: corev1.TolerationOpExists})(p)
	}
	return p
}

// BenchmarkDecide places 5,000 pods on 5,000 nodes: the deciding part alone.
func BenchmarkDecide(b *testing.B) {
	const count = 5000
	pods := make([]*podInfo, count)
	for i := range pods {
		pods[i] = pendingOf(b, pod(numbered("p", i), asks("10m", "16Mi"), owned(types.UID(strconv.Itoa(i/500)))))
	}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		c := newCluster()
		for i := range count {
			c.setNode(node(numbered("n", i), "32", "256Gi", label(corev1.LabelTopologyZone, strconv.Itoa(i%3))))
		}
		d, start := &decider{}, 0
		b.StartTimer()
		for _, p := range pods {
			dec := d.decide(p, c.nodes, start)
			start = dec.next
			c.assume(p, dec.node)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*count), "us/pod")
}
