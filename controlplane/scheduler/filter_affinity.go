package scheduler

const reasonAffinity = "node(s) didn't match Pod's node affinity/selector"

// nodeAffinity keeps a pod to the nodes that its node selector and required
// node affinity admit.
func nodeAffinity(p *podInfo, n *nodeInfo, reasons []string) []string {
	if p.required == nil {
		return reasons
	}
	// An error is a selector that cannot be read: it admits nothing.
	if ok, err := p.required.Match(n.node); err != nil || !ok {
		return append(reasons, reasonAffinity)
	}
	return reasons
}
