package scheduler

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/schema"
)

func TestFilters(t *testing.T) {
	gpu := corev1.ResourceName("example.com/gpu")
	require := func(terms ...corev1.NodeSelectorTerm) podOption {
		return affinity(&corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}})
	}
	for _, tt := range []struct {
		name string
		pod  *corev1.Pod
		node *corev1.Node
		on   []*corev1.Pod
		want []string
	}{
		{"nothing asked", pod("p"), node("n", "1", "1Gi"), nil, nil},
		{"cordoned", pod("p"), node("n", "1", "1Gi", cordoned), nil, []string{reasonUnschedulable}},
		{"cordoned, tolerated", pod("p", tolerating(corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists})),
			node("n", "1", "1Gi", cordoned), nil, nil},
		{"cordoned, everything tolerated", pod("p", tolerating(corev1.Toleration{Operator: corev1.TolerationOpExists})),
			node("n", "1", "1Gi", cordoned, tainted("a", "b", corev1.TaintEffectNoExecute)), nil, nil},

		{"other node named", pod("p", on("m")), node("n", "1", "1Gi"), nil, []string{reasonNodeName}},
		{"this node named", pod("p", on("n")), node("n", "1", "1Gi"), nil, nil},

		{"taint", pod("p"), node("n", "1", "1Gi", tainted("role", "db", corev1.TaintEffectNoSchedule)), nil, []string{"node(s) had untolerated taint {role: db}"}},
		{"taint without value", pod("p"), node("n", "1", "1Gi", tainted("gone", "", corev1.TaintEffectNoExecute)), nil, []string{"node(s) had untolerated taint {gone: }"}},
		{"soft taint", pod("p"), node("n", "1", "1Gi", tainted("role", "db", corev1.TaintEffectPreferNoSchedule)), nil, nil},
		{"tolerated by value", pod("p", tolerating(corev1.Toleration{Key: "role", Value: "db", Effect: corev1.TaintEffectNoSchedule})),
			node("n", "1", "1Gi", tainted("role", "db", corev1.TaintEffectNoSchedule)), nil, nil},
		{"other value tolerated", pod("p", tolerating(corev1.Toleration{Key: "role", Value: "web"})),
			node("n", "1", "1Gi", tainted("role", "db", corev1.TaintEffectNoSchedule)), nil, []string{"node(s) had untolerated taint {role: db}"}},
		{"other effect tolerated", pod("p", tolerating(corev1.Toleration{Key: "role", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute})),
			node("n", "1", "1Gi", tainted("role", "db", corev1.TaintEffectNoSchedule)), nil, []string{"node(s) had untolerated taint {role: db}"}},

		{"selector met", pod("p", selecting("disk", "ssd")), node("n", "1", "1Gi", label("disk", "ssd")), nil, nil},
		{"selector not met", pod("p", selecting("disk", "ssd")), node("n", "1", "1Gi", label("disk", "hdd")), nil, []string{reasonAffinity}},
		{"affinity, one of two terms", pod("p", require(term("a", corev1.NodeSelectorOpExists), term("disk", corev1.NodeSelectorOpIn, "ssd", "nvme"))),
			node("n", "1", "1Gi", label("disk", "nvme")), nil, nil},
		{"affinity, no term", pod("p", require(term("disk", corev1.NodeSelectorOpNotIn, "hdd"), term("a", corev1.NodeSelectorOpExists))),
			node("n", "1", "1Gi", label("disk", "hdd")), nil, []string{reasonAffinity}},
		{"affinity by name", pod("p", onlyNode("n")), node("n", "1", "1Gi"), nil, nil},
		{"affinity by another name", pod("p", onlyNode("m")), node("n", "1", "1Gi"), nil, []string{reasonAffinity}},

		{"port free", pod("p", takes("", 80, corev1.ProtocolTCP)), node("n", "1", "1Gi"), []*corev1.Pod{pod("q", takes("", 81, corev1.ProtocolTCP))}, nil},
		{"port taken", pod("p", takes("", 80, corev1.ProtocolTCP)), node("n", "1", "1Gi"), []*corev1.Pod{pod("q", takes("", 80, corev1.ProtocolTCP))}, []string{reasonPorts}},
		{"port of another protocol", pod("p", takes("", 80, corev1.ProtocolUDP)), node("n", "1", "1Gi"), []*corev1.Pod{pod("q", takes("", 80, corev1.ProtocolTCP))}, nil},
		{"port of one address against all", pod("p", takes("10.0.0.1", 80, "")), node("n", "1", "1Gi"), []*corev1.Pod{pod("q", takes("", 80, corev1.ProtocolTCP))}, []string{reasonPorts}},
		{"port of all addresses against one", pod("p", takes("0.0.0.0", 80, "")), node("n", "1", "1Gi"), []*corev1.Pod{pod("q", takes("10.0.0.1", 80, ""))}, []string{reasonPorts}},
		{"port of two addresses", pod("p", takes("10.0.0.2", 80, "")), node("n", "1", "1Gi"), []*corev1.Pod{pod("q", takes("10.0.0.1", 80, ""))}, nil},

		{"fits exactly", pod("p", asks("500m", "512Mi")), node("n", "1", "1Gi"), []*corev1.Pod{pod("q", asks("500m", "512Mi"))}, nil},
		{"cpu short", pod("p", asks("501m", "1Mi")), node("n", "1", "1Gi"), []*corev1.Pod{pod("q", asks("500m", "1Mi"))}, []string{"Insufficient cpu"}},
		{"cpu and memory short", pod("p", asks("2", "2Gi")), node("n", "1", "1Gi"), nil, []string{"Insufficient cpu", "Insufficient memory"}},
		{"nothing asked on a full node", pod("p"), node("n", "1", "1Gi"), []*corev1.Pod{pod("q", asks("1", "1Gi"))}, nil},
		{"too many pods", pod("p"), node("n", "1", "1Gi", maxPods("1")), []*corev1.Pod{pod("q")}, []string{"Too many pods"}},
		{"extended resource", pod("p", asksFor(gpu, "2")), node("n", "1", "1Gi", extended(gpu, "2")), nil, nil},
		{"extended resource short", pod("p", asksFor(gpu, "2")), node("n", "1", "1Gi", extended(gpu, "2")), []*corev1.Pod{pod("q", asksFor(gpu, "1"))}, []string{"Insufficient example.com/gpu"}},
		{"init container asks more", pod("p", asks("100m", "1Mi"), initAsks("2")), node("n", "1", "1Gi"), nil, []string{"Insufficient cpu"}},
		{"overhead counts", pod("p", asks("900m", "1Mi"), overhead("200m")), node("n", "1", "1Gi"), nil, []string{"Insufficient cpu"}},
		{"ephemeral storage short", pod("p", asksFor(corev1.ResourceEphemeralStorage, "200Gi")), node("n", "1", "1Gi"), nil, []string{"Insufficient ephemeral-storage"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			objects := []schema.Object{tt.node}
			for _, p := range tt.on {
				p.Spec.NodeName = tt.node.Name
				objects = append(objects, p)
			}
			c := clusterOf(t, objects...)
			got, _ := refusals(pendingOf(t, tt.pod), c.byName[tt.node.Name], nil)
			if !slices.Equal(got, tt.want) {
				t.Errorf("refusals = %q, want %q", got, tt.want)
			}
		})
	}
}
