package scheduler

import "k8s.io/apimachinery/pkg/labels"

const (
	reasonPeerAffinity = "node(s) didn't match pod affinity rules"
	reasonPeerAnti     = "node(s) didn't match pod anti-affinity rules"
	reasonPeerAgainst  = "node(s) didn't satisfy existing pods anti-affinity rules"
	reasonSpread       = "node(s) didn't match pod topology spread constraints"
	reasonSpreadLabel  = reasonSpread + " (missing required label)"
	reasonClaims       = "persistent volume claims are not honoured by this cluster yet"
)

// spreadLabels keeps a pod to nodes that have the keys of its constraints.
func spreadLabels(p *podInfo, n *nodeInfo, reasons []string) []string {
	if p.peers == nil {
		return reasons
	}
	for i := range p.peers.spread {
		if _, ok := domainOf(n, p.peers.spread[i].key); !ok {
			return append(reasons, reasonSpreadLabel)
		}
	}
	return reasons
}

// spreadEvenly keeps the difference between domains within maxSkew (KEP-895).
func spreadEvenly(p *podInfo, n *nodeInfo, reasons []string) []string {
	if p.peers == nil || len(p.peers.spread) == 0 {
		return reasons
	}
	c := n.peers.of(p)
	if c == nil {
		return reasons
	}
	for i := range p.peers.spread {
		r := &p.peers.spread[i]
		d, _ := domainOf(n, r.key)
		own := 0
		if r.selector.Matches(labels.Set(p.pod.Labels)) {
			own = 1
		}
		if c.spread[i].counts[d.value]+own-c.spread[i].least > r.maxSkew {
			return append(reasons, reasonSpread)
		}
	}
	return reasons
}

// peerAffinity keeps a pod to the domains in which the pods are that it wants
// beside it. The first of a group that wants its own kind may be anywhere.
func peerAffinity(p *podInfo, n *nodeInfo, reasons []string) []string {
	if p.peers == nil || len(p.peers.affinity) == 0 {
		return reasons
	}
	c := n.peers.of(p)
	if c == nil {
		return reasons
	}
	beside := true
	for i := range p.peers.affinity {
		d, ok := domainOf(n, p.peers.affinity[i].key)
		if !ok {
			return append(reasons, reasonPeerAffinity)
		}
		beside = beside && c.affinity[d] > 0
	}
	if !beside && (len(c.affinity) > 0 || !p.peers.matchesAll(p.pod, n.peers.namespaces)) {
		return append(reasons, reasonPeerAffinity)
	}
	return reasons
}

// peerAntiAffinity keeps a pod off the domains of pods that it does not want
// beside it, and of those that do not want it.
func peerAntiAffinity(p *podInfo, n *nodeInfo, reasons []string) []string {
	c := n.peers.of(p)
	if c == nil {
		return reasons
	}
	if p.peers != nil {
		for i := range p.peers.anti {
			if d, ok := domainOf(n, p.peers.anti[i].key); ok && c.anti[d] > 0 {
				return append(reasons, reasonPeerAnti)
			}
		}
	}
	for d := range c.against {
		if have, ok := domainOf(n, d.key); ok && have == d {
			return append(reasons, reasonPeerAgainst)
		}
	}
	return reasons
}

// volumeClaims keeps pods with claims waiting: nothing binds claims, and a node
// could not mount them.
func volumeClaims(p *podInfo, _ *nodeInfo, reasons []string) []string {
	for i := range p.pod.Spec.Volumes {
		if v := &p.pod.Spec.Volumes[i]; v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			return append(reasons, reasonClaims)
		}
	}
	return reasons
}
