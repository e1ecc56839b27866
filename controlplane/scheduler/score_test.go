package scheduler

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// values returns a score of each node, normalized.
func values(t *testing.T, name string, p *corev1.Pod, c *cluster, nodes ...string) []int64 {
	t.Helper()
	i := slices.IndexFunc(scores, func(s score) bool { return s.name == name })
	if i < 0 {
		t.Fatalf("no score %s", name)
	}
	s, info := scores[i], pendingOf(t, p)
	var on []*nodeInfo
	var out []int64
	for _, n := range nodes {
		on = append(on, c.byName[n])
		out = append(out, s.of(info, c.byName[n]))
	}
	if s.normalize != nil {
		s.normalize(info, on, out)
	}
	return out
}

func TestScores(t *testing.T) {
	zone := func(z string) nodeOption { return label(corev1.LabelTopologyZone, z) }
	soft := tainted("slow", "", corev1.TaintEffectPreferNoSchedule)
	softer := tainted("slower", "", corev1.TaintEffectPreferNoSchedule)
	prefer := affinity(&corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
		{Weight: 80, Preference: term("disk", corev1.NodeSelectorOpIn, "ssd")},
		{Weight: 20, Preference: term("near", corev1.NodeSelectorOpExists)},
	}})
	c := clusterOf(t,
		node("empty", "4", "4Gi", zone("a")), node("half", "4", "4Gi", zone("a"), soft), node("full", "4", "4Gi", zone("b"), soft, softer),
		node("ssd", "4", "4Gi", label("disk", "ssd")), node("near", "4", "4Gi", label("near", "")),
		pod("h", on("half"), asks("2", "2Gi"), owned("rs")), pod("f1", on("full"), asks("2", "2Gi"), owned("rs")), pod("f2", on("full"), asks("2", "2Gi"), owned("rs")),
		node("lopsided", "4", "4Gi"), pod("l", on("lopsided"), asks("2", "0")),
	)
	for _, tt := range []struct {
		name, score string
		pod         *corev1.Pod
		nodes       []string
		want        []int64
	}{
		{"least allocated", "NodeResourcesFit", pod("p", asks("1", "1Gi")), []string{"empty", "half", "full"}, []int64{75, 25, 0}},
		{"least allocated counts pods that ask nothing", "NodeResourcesFit", pod("p"), []string{"empty"}, []int64{(97 + 95) / 2}},
		{"balanced stays", "NodeResourcesBalancedAllocation", pod("p", asks("1", "1Gi")), []string{"empty", "half"}, []int64{100 - 25, 75}},
		{"balanced gets better", "NodeResourcesBalancedAllocation", pod("p", asks("0", "2Gi")), []string{"lopsided", "empty"}, []int64{87, 62}},
		{"soft taints", "TaintToleration", pod("p"), []string{"empty", "half", "full"}, []int64{100, 50, 0}},
		{"soft taints tolerated", "TaintToleration", pod("p", tolerating(corev1.Toleration{Operator: corev1.TolerationOpExists})), []string{"empty", "full"}, []int64{100, 100}},
		{"preferred affinity", "NodeAffinity", pod("p", prefer), []string{"ssd", "near", "empty"}, []int64{100, 25, 0}},
		{"spread over nodes", "PodTopologySpread", pod("p", owned("rs")), []string{"ssd", "near"}, []int64{100, 100}},
		{"spread over nodes and zones", "PodTopologySpread", pod("p", owned("rs")), []string{"empty", "half", "full"}, []int64{(100 + 2*50) / 3, (50 + 2*50) / 3, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := values(t, tt.score, tt.pod, c, tt.nodes...); !slices.Equal(got, tt.want) {
				t.Errorf("%s = %v, want %v", tt.score, got, tt.want)
			}
		})
	}
}

func TestEnough(t *testing.T) {
	for _, tt := range []struct{ percentage, nodes, want int }{
		{0, 10, 10}, {0, 100, 100}, {0, 200, 100}, {0, 1000, 420}, {0, 5000, 500}, {0, 10000, 500},
		{100, 5000, 5000}, {1, 5000, 100}, {20, 5000, 1000},
	} {
		d := decider{percentage: tt.percentage}
		if got := d.enough(tt.nodes); got != tt.want {
			t.Errorf("enough(%d nodes, %d %%) = %d, want %d", tt.nodes, tt.percentage, got, tt.want)
		}
	}
}
