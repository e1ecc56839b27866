package scheduler

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const zoneKey = corev1.LabelTopologyZone

func labelled(k, v string) podOption {
	return func(p *corev1.Pod) {
		if p.Labels == nil {
			p.Labels = map[string]string{}
		}
		p.Labels[k] = v
	}
}

func of(namespace string) podOption { return func(p *corev1.Pod) { p.Namespace = namespace } }

func peer(key, app string, change ...func(*corev1.PodAffinityTerm)) corev1.PodAffinityTerm {
	t := corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}
	for _, c := range change {
		c(&t)
	}
	return t
}

func affinityOf(p *corev1.Pod) *corev1.Affinity {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &corev1.Affinity{}
	}
	return p.Spec.Affinity
}

func beside(terms ...corev1.PodAffinityTerm) podOption {
	return func(p *corev1.Pod) {
		affinityOf(p).PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
	}
}

func apart(terms ...corev1.PodAffinityTerm) podOption {
	return func(p *corev1.Pod) {
		affinityOf(p).PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
	}
}

func spreads(key, app string, skew int32, change ...func(*corev1.TopologySpreadConstraint)) podOption {
	c := corev1.TopologySpreadConstraint{TopologyKey: key, MaxSkew: skew, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}
	for _, f := range change {
		f(&c)
	}
	return func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c)
	}
}

// zones is two zones, a with a1 and a2 and b with b1, and a node without a zone.
func zones(placed ...*corev1.Pod) *cluster {
	c := newCluster()
	for _, n := range []*corev1.Node{
		node("a1", "4", "8Gi", label(zoneKey, "a")), node("a2", "4", "8Gi", label(zoneKey, "a")),
		node("b1", "4", "8Gi", label(zoneKey, "b")), node("none", "4", "8Gi"),
	} {
		c.setNode(n)
	}
	for _, ns := range []string{"shop", "other"} {
		c.peers.setNamespace(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns, Labels: map[string]string{"team": ns}}}, false)
	}
	for _, p := range placed {
		c.setPod(p)
	}
	return c
}

// openTo are the nodes that a pod may come to.
func openTo(t *testing.T, c *cluster, p *corev1.Pod) string {
	t.Helper()
	info, err := newPending(p)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, n := range c.nodes {
		if fits(info, n) {
			out = append(out, n.name)
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func TestPeers(t *testing.T) {
	web, host := labelled("app", "web"), corev1.LabelHostname
	team := func(team string) func(*corev1.PodAffinityTerm) {
		return func(t *corev1.PodAffinityTerm) {
			t.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}}
		}
	}
	ending := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }
	onA1 := pod("w", web, on("a1"))
	for _, c := range []struct {
		name   string
		placed []*corev1.Pod
		pod    *corev1.Pod
		want   string
	}{
		{"no rules", []*corev1.Pod{onA1}, pod("p"), "a1 a2 b1 none"},
		{"apart from a host", []*corev1.Pod{onA1}, pod("p", apart(peer(host, "web"))), "a2 b1 none"},
		{"apart from a zone", []*corev1.Pod{onA1}, pod("p", apart(peer(zoneKey, "web"))), "b1 none"},
		{"apart from those of another namespace", []*corev1.Pod{onA1}, pod("p", of("other"), apart(peer(zoneKey, "web"))), "a1 a2 b1 none"},
		{"apart in named namespaces", []*corev1.Pod{onA1}, pod("p", of("other"), apart(peer(zoneKey, "web", func(t *corev1.PodAffinityTerm) { t.Namespaces = []string{"shop"} }))), "b1 none"},
		{"apart in selected namespaces", []*corev1.Pod{onA1}, pod("p", of("other"), apart(peer(zoneKey, "web", team("shop")))), "b1 none"},
		{"apart in no namespace", []*corev1.Pod{onA1}, pod("p", apart(peer(zoneKey, "web", team("nobody")))), "a1 a2 b1 none"},
		{"apart in all namespaces", []*corev1.Pod{onA1}, pod("p", of("other"), apart(peer(zoneKey, "web", func(t *corev1.PodAffinityTerm) { t.NamespaceSelector = &metav1.LabelSelector{} }))), "b1 none"},
		{"a placed one that keeps others off", []*corev1.Pod{pod("q", on("a1"), apart(peer(zoneKey, "web")))}, pod("p", web), "b1 none"},
		{"a placed one that keeps off some else", []*corev1.Pod{pod("q", on("a1"), apart(peer(zoneKey, "db")))}, pod("p", web), "a1 a2 b1 none"},
		{"one that ends keeps off too", []*corev1.Pod{pod("q", on("a1"), ending, apart(peer(zoneKey, "web")))}, pod("p", web), "b1 none"},
		{"beside in the zone", []*corev1.Pod{onA1}, pod("p", beside(peer(zoneKey, "web"))), "a1 a2"},
		{"beside nobody", []*corev1.Pod{onA1}, pod("p", beside(peer(zoneKey, "db"))), ""},
		{"the first of its kind", nil, pod("p", web, beside(peer(zoneKey, "web"))), "a1 a2 b1"},
		{"the second of its kind", []*corev1.Pod{onA1}, pod("p", web, beside(peer(zoneKey, "web"))), "a1 a2"},
		{"beside one that all terms are about", []*corev1.Pod{onA1}, pod("p", beside(peer(zoneKey, "web"), peer(zoneKey, "db"))), ""},
		{"beside and apart", []*corev1.Pod{onA1}, pod("p", beside(peer(zoneKey, "web")), apart(peer(host, "web"))), "a2"},
		{"spread over zones", []*corev1.Pod{onA1}, pod("p", web, spreads(zoneKey, "web", 1)), "b1"},
		{"spread with room", []*corev1.Pod{onA1}, pod("p", web, spreads(zoneKey, "web", 2)), "a1 a2 b1"},
		{"spread, not one of those", []*corev1.Pod{onA1}, pod("p", spreads(zoneKey, "web", 1)), "a1 a2 b1"},
		{"spread, those of others", []*corev1.Pod{pod("w", of("other"), web, on("a1"))}, pod("p", web, spreads(zoneKey, "web", 1)), "a1 a2 b1"},
		{"spread, one that ends", []*corev1.Pod{pod("w", web, on("a1"), ending)}, pod("p", web, spreads(zoneKey, "web", 1)), "a1 a2 b1"},
		{"too few domains", []*corev1.Pod{onA1, pod("v", web, on("b1"))}, pod("p", web, spreads(zoneKey, "web", 1, func(c *corev1.TopologySpreadConstraint) { c.MinDomains = new(int32(3)) })), ""},
		{"only where it could be", []*corev1.Pod{onA1}, pod("p", web, nodeIn(zoneKey, "a"), spreads(zoneKey, "web", 1)), "a1 a2"},
		{"also where it could not be", []*corev1.Pod{onA1}, pod("p", web, nodeIn(zoneKey, "a"), spreads(zoneKey, "web", 1, func(c *corev1.TopologySpreadConstraint) {
			c.NodeAffinityPolicy = new(corev1.NodeInclusionPolicyIgnore)
		})), ""},
		{"a wish", []*corev1.Pod{onA1}, pod("p", web, spreads(zoneKey, "web", 1, func(c *corev1.TopologySpreadConstraint) { c.WhenUnsatisfiable = corev1.ScheduleAnyway })), "a1 a2 b1 none"},
		{"two constraints", []*corev1.Pod{onA1, pod("v", web, on("b1"))}, pod("p", web, spreads(zoneKey, "web", 1), spreads(host, "web", 1)), "a2"},
		{"claims", nil, pod("p", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}}}
		}), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := openTo(t, zones(c.placed...), c.pod); got != c.want {
				t.Errorf("may come to %q, want %q", got, c.want)
			}
		})
	}
}

func nodeIn(key, value string) podOption {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{key: value} }
}

// TestPeersTaints: a node that the pod does not tolerate is a domain unless the
// constraint honours taints.
func TestPeersTaints(t *testing.T) {
	for policy, want := range map[corev1.NodeInclusionPolicy]string{corev1.NodeInclusionPolicyIgnore: "", corev1.NodeInclusionPolicyHonor: "a1 a2"} {
		c := zones(pod("w", labelled("app", "web"), on("a1")))
		c.setNode(node("b1", "4", "8Gi", label(zoneKey, "b"), tainted("k", "v", corev1.TaintEffectNoSchedule)))
		p := pod("p", labelled("app", "web"), spreads(zoneKey, "web", 1, func(c *corev1.TopologySpreadConstraint) { c.NodeTaintsPolicy = &policy }))
		if got := openTo(t, c, p); got != want {
			t.Errorf("%s: may come to %q, want %q", policy, got, want)
		}
	}
}

// TestPeersGone: what a pod has kept others off is open when it is gone, on
// nodes too that have not changed themselves.
func TestPeersGone(t *testing.T) {
	guard := pod("q", on("a1"), apart(peer(zoneKey, "web")))
	c := zones(guard)
	p, err := newPending(pod("p", labelled("app", "web")))
	if err != nil || fits(p, c.byName["a2"]) {
		t.Fatal("not kept off", err)
	}
	c.peers.moved = false
	c.removePod(newPod(guard).key)
	if !fits(p, c.byName["a2"]) || !c.peers.moved || len(c.peers.guarded) > 0 {
		t.Error("still kept off", c.peers.moved, len(c.peers.guarded))
	}
}

// TestPeersNobody: in a cluster without such rules nothing is kept and nothing
// is looked at.
func TestPeersNobody(t *testing.T) {
	c := zones(pod("w", on("a1")))
	p, _ := newPending(pod("p"))
	if c.peers.of(p) != nil || c.peers.moved || len(c.peers.guarded) > 0 {
		t.Error("something is kept")
	}
}

// TestPeersPreempt: room for anti-affinity is made on the node where the other
// one is.
func TestPeersPreempt(t *testing.T) {
	c := newCluster()
	c.setNode(node("a1", "4", "8Gi"))
	c.setPod(pod("w", labelled("app", "web"), on("a1")))
	p, _ := newPending(pod("p", apart(peer(corev1.LabelHostname, "web")), func(p *corev1.Pod) { p.Spec.Priority = new(int32(10)) }))
	d := (&decider{}).decide(p, c.nodes, 0)
	if d.node != nil || !strings.Contains(d.refusal.String(), reasonPeerAnti) {
		t.Fatal(d.refusal)
	}
	made := preempt(p, d.refusal, c)
	if made.node == nil || len(made.victims) != 1 || made.victims[0].UID != types.UID("uid-w") {
		t.Errorf("%+v", made)
	}
}

// TestPeersWake: a pod that waits is tried on nodes that have not changed, when
// the pods elsewhere have: one it must be beside has come, one that kept it off
// has gone.
func TestPeersWake(t *testing.T) {
	a, b := node("a", "1", "1Gi", label(zoneKey, "z")), node("b", "1", "1Gi", label(zoneKey, "z"))
	// a is full, and stays so.
	full, guard := pod("full", asks("900m", "1Mi"), on("a")), pod("guard", asks("100m", "1Mi"), on("a"), apart(peer(zoneKey, "web")))
	run(t, func(w *world) {
		w.create(pod("web", asks("500m", "1Mi"), labelled("app", "web")))
		w.create(pod("near", asks("100m", "1Mi"), beside(peer(zoneKey, "web"))))
		time.Sleep(time.Minute)
		synctest.Wait()
		if c := condition(w.get("web")); w.node("web") != "" || !strings.Contains(c.Message, reasonPeerAgainst) {
			w.Fatalf("web on %q: %s", w.node("web"), c.Message)
		}
		if c := condition(w.get("near")); !strings.Contains(c.Message, reasonPeerAffinity) {
			w.Fatalf("near on %q: %s", w.node("near"), c.Message)
		}
		w.delete(guard)
		time.Sleep(time.Minute)
		synctest.Wait()
		if w.node("web") != "b" || w.node("near") == "" {
			w.Errorf("web on %q, near on %q", w.node("web"), w.node("near"))
		}
	}, a, b, full, guard)
}

// BenchmarkPeersNone is what a pod without rules pays on a node of a cluster
// without any.
func BenchmarkPeersNone(b *testing.B) {
	c := zones(pod("w", on("a1")))
	p, err := newPending(pod("p"))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		n := c.byName["a1"]
		peerAntiAffinity(p, n, peerAffinity(p, n, spreadEvenly(p, n, spreadLabels(p, n, nil))))
	}
}

// BenchmarkPeersSpread is one decision for a pod with anti-affinity and spread
// among 1,000 nodes of 10,000 pods.
func BenchmarkPeersSpread(b *testing.B) {
	c := newCluster()
	for i := range 1000 {
		name := numbered("n", i)
		c.setNode(node(name, "64", "64Gi", label(zoneKey, numbered("z", i%3))))
		for j := range 10 {
			c.setPod(pod(numbered(name, j), labelled("app", numbered("app", (i*10+j)%100)), on(name)))
		}
	}
	p, err := newPending(pod("p", labelled("app", "app-0001"), apart(peer(corev1.LabelHostname, "app-0001")), spreads(zoneKey, "app-0001", 1000)))
	if err != nil {
		b.Fatal(err)
	}
	d := &decider{}
	b.ReportAllocs()
	for b.Loop() {
		c.peers.look()
		d.decide(p, c.nodes, 0)
	}
}
