package scheduler

const reasonPorts = "node(s) didn't have free ports for the requested pod ports"

// nodePorts keeps two pods from taking the same port of a node.
func nodePorts(p *podInfo, n *nodeInfo, reasons []string) []string {
	for _, want := range p.ports {
		if portTaken(n.ports, want) {
			return append(reasons, reasonPorts)
		}
	}
	return reasons
}

// portTaken: a port of all addresses clashes with the same port of any.
func portTaken(taken map[hostPort]int, want hostPort) bool {
	if len(taken) == 0 {
		return false
	}
	if want.ip != anyAddress {
		return taken[want] > 0 || taken[hostPort{anyAddress, want.protocol, want.port}] > 0
	}
	for have := range taken {
		if have.protocol == want.protocol && have.port == want.port {
			return true
		}
	}
	return false
}
