package scheduler

// nodeResourcesFit keeps what the pods of a node ask for below what the node
// can give. It names every resource that is short.
func nodeResourcesFit(p *podInfo, n *nodeInfo, reasons []string) []string {
	if len(n.pods)+1 > n.maxPods {
		reasons = append(reasons, "Too many pods")
	}
	if v := p.asked.milliCPU; v > 0 && v > n.allocatable.milliCPU-n.asked.milliCPU {
		reasons = append(reasons, "Insufficient cpu")
	}
	if v := p.asked.memory; v > 0 && v > n.allocatable.memory-n.asked.memory {
		reasons = append(reasons, "Insufficient memory")
	}
	if v := p.asked.ephemeral; v > 0 && v > n.allocatable.ephemeral-n.asked.ephemeral {
		reasons = append(reasons, "Insufficient ephemeral-storage")
	}
	for name, v := range p.asked.scalar {
		if v > 0 && v > n.allocatable.scalar[name]-n.asked.scalar[name] {
			reasons = append(reasons, "Insufficient "+string(name))
		}
	}
	return reasons
}
