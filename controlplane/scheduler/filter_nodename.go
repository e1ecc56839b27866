package scheduler

const reasonNodeName = "node(s) didn't match the requested node name"

// nodeName keeps a pod that names its node to that one.
func nodeName(p *podInfo, n *nodeInfo, reasons []string) []string {
	if want := p.pod.Spec.NodeName; want != "" && want != n.name {
		return append(reasons, reasonNodeName)
	}
	return reasons
}
