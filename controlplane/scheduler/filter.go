package scheduler

// filter refuses nodes for a pod. Refusals are appended to reasons; a node that
// adds none passes. A filter looks at its two arguments and nothing else.
type filter struct {
	name   string
	refuse func(p *podInfo, n *nodeInfo, reasons []string) []string
	// evictable says that the refusal would be over if other pods left.
	evictable bool
}

// filters are asked in this order, and the first that refuses ends it.
var filters = []filter{
	{name: "NodeUnschedulable", refuse: nodeUnschedulable},
	{name: "NodeName", refuse: nodeName},
	{name: "TaintToleration", refuse: taintToleration},
	{name: "NodeAffinity", refuse: nodeAffinity},
	{name: "NodePorts", refuse: nodePorts, evictable: true},
	{name: "NodeResourcesFit", refuse: nodeResourcesFit, evictable: true},
	{name: "VolumeBinding", refuse: volumeClaims},
	{name: "PodTopologySpread", refuse: spreadLabels},
	{name: "PodTopologySpread", refuse: spreadEvenly, evictable: true},
	{name: "InterPodAffinity", refuse: peerAffinity},
	{name: "InterPodAffinity", refuse: peerAntiAffinity, evictable: true},
}

// refusals returns why a node is not for a pod, none when it is, and whether
// the eviction of others could change that. reasons is a buffer.
func refusals(p *podInfo, n *nodeInfo, reasons []string) (out []string, evictable bool) {
	if len(n.nominated) > 0 {
		withNominated(p, n, func() { out, evictable = ask(p, n, reasons) })
		return out, evictable
	}
	return ask(p, n, reasons)
}

func ask(p *podInfo, n *nodeInfo, reasons []string) ([]string, bool) {
	for i := range filters {
		if out := filters[i].refuse(p, n, reasons); len(out) > len(reasons) {
			return out, filters[i].evictable
		}
	}
	return reasons, false
}

// fits says whether a pod could run on a node.
func fits(p *podInfo, n *nodeInfo) bool {
	if n.node == nil {
		return false
	}
	var buf [4]string
	out, _ := refusals(p, n, buf[:0])
	return len(out) == 0
}
