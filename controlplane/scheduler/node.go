package scheduler

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/schema"
)

// anyAddress stands for all addresses of a node.
const anyAddress = "0.0.0.0"

// nodeInfo is a node with the sum of the pods on it. node is nil while pods are
// known to be on a node that is not (yet, or any more) there.
type nodeInfo struct {
	name string
	node *corev1.Node
	zone string

	allocatable resources
	maxPods     int
	// taints that keep pods off, and those that only put them off.
	hard, soft []taint

	pods    map[schema.Key]*podInfo
	asked   resources
	counted resources
	ports   map[hostPort]int
	owners  map[types.UID]int // pods by controller
	// nominated are pods for which others are leaving the node.
	nominated []*podInfo
	index     int // in cluster.nodes; -1 when node is nil
	peers     *peers
}

// taint is a taint with the text that refuses for it.
type taint struct {
	corev1.Taint
	refusal string
}

func newNode(name string) *nodeInfo {
	return &nodeInfo{
		name: name, index: -1, pods: map[schema.Key]*podInfo{},
		ports: map[hostPort]int{}, owners: map[types.UID]int{},
	}
}

// set takes in a new state of the node and says whether it may matter to a pod
// that did not fit before. Heartbeats do not.
func (n *nodeInfo) set(node *corev1.Node) bool {
	old := n.node
	n.node = node
	if old != nil && old.Spec.Unschedulable == node.Spec.Unschedulable &&
		maps.Equal(old.Labels, node.Labels) &&
		equality.Semantic.DeepEqual(old.Spec.Taints, node.Spec.Taints) &&
		equality.Semantic.DeepEqual(old.Status.Allocatable, node.Status.Allocatable) {
		return false
	}
	n.zone = node.Labels[corev1.LabelTopologyRegion] + "/" + node.Labels[corev1.LabelTopologyZone]
	if n.zone == "/" {
		n.zone = ""
	}
	n.allocatable = resourcesOf(node.Status.Allocatable)
	n.maxPods = int(node.Status.Allocatable.Pods().Value())
	n.hard, n.soft = nil, nil
	for _, t := range node.Spec.Taints {
		switch t.Effect {
		case corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute:
			n.hard = append(n.hard, taint{t, fmt.Sprintf("node(s) had untolerated taint {%s: %s}", t.Key, t.Value)})
		case corev1.TaintEffectPreferNoSchedule:
			n.soft = append(n.soft, taint{Taint: t})
		}
	}
	return true
}

// put counts a pod on the node.
func (n *nodeInfo) put(p *podInfo) { n.count(p, 1); n.pods[p.key] = p }

// take counts a pod out.
func (n *nodeInfo) take(p *podInfo) { n.count(p, -1); delete(n.pods, p.key) }

func (n *nodeInfo) count(p *podInfo, sign int) {
	n.peers.count(p, n, sign)
	n.asked.add(&p.asked, int64(sign))
	n.counted.add(&p.counted, int64(sign))
	for _, port := range p.ports {
		if n.ports[port] += sign; n.ports[port] == 0 {
			delete(n.ports, port)
		}
	}
	if p.owner != "" {
		if n.owners[p.owner] += sign; n.owners[p.owner] == 0 {
			delete(n.owners, p.owner)
		}
	}
}
