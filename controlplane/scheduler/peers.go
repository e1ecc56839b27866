package scheduler

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// peers knows what pods demand of where other pods are. In a cluster without
// such pods it keeps nothing and asks nobody.
type peers struct {
	cluster    *cluster
	namespaces map[string]labels.Set
	// guarded are placed pods with required anti-affinity: they keep others off.
	guarded map[*podInfo]*nodeInfo
	// used says that some pod that waits has rules of its own.
	used bool
	// moved says that since the last look a pod has come or gone that may make
	// room for such pods on nodes which have not changed themselves.
	moved bool

	version int // of the placed pods
	known   struct {
		of      *podInfo
		version int
		counts  *peerCounts
	}
}

func newPeers(c *cluster) *peers {
	return &peers{cluster: c, namespaces: map[string]labels.Set{}, guarded: map[*podInfo]*nodeInfo{}}
}

// count notes that a pod has come to a node or gone.
func (s *peers) count(p *podInfo, n *nodeInfo, sign int) {
	if s == nil {
		return
	}
	s.version++
	if p.peers != nil && len(p.peers.anti) > 0 {
		s.moved = true
		if sign > 0 {
			s.guarded[p] = n
		} else {
			delete(s.guarded, p)
		}
	}
	s.moved = s.moved || s.used
}

// setNamespace takes in the labels of a namespace.
func (s *peers) setNamespace(ns *corev1.Namespace, deleted bool) {
	s.version++
	s.moved = s.moved || s.used || len(s.guarded) > 0
	if deleted {
		delete(s.namespaces, ns.Name)
		return
	}
	s.namespaces[ns.Name] = ns.Labels
}

// look begins a new look at the cluster, in which labels may have changed.
func (s *peers) look() { s.version++ }

// peerCounts is what a pod must know of the others to be placed.
type peerCounts struct {
	against        map[domain]int // placed pods that do not want it beside them
	affinity, anti map[domain]int // placed pods that its own terms are about
	spread         []spreadCounts
}

// spreadCounts are the pods that a constraint counts, by the value of its key.
type spreadCounts struct {
	counts map[string]int
	least  int
}

// of returns the counts for a pod; nil when nothing is demanded by or of it.
func (s *peers) of(p *podInfo) *peerCounts {
	if s == nil || p.peers == nil && len(s.guarded) == 0 {
		return nil
	}
	if s.known.counts != nil && s.known.of == p && s.known.version == s.version {
		return s.known.counts
	}
	c := &peerCounts{against: s.against(p.pod)}
	if p.peers != nil {
		s.used = true
		s.own(c, p)
	}
	s.known.of, s.known.version, s.known.counts = p, s.version, c
	return c
}

// against counts the placed pods whose anti-affinity is about a pod.
func (s *peers) against(pod *corev1.Pod) map[domain]int {
	var out map[domain]int
	for q, n := range s.guarded {
		for i := range q.peers.anti {
			t := &q.peers.anti[i]
			d, ok := domainOf(n, t.key)
			if !ok || !t.matches(pod, s.namespaces) {
				continue
			}
			if out == nil {
				out = map[domain]int{}
			}
			out[d]++
		}
	}
	return out
}

// own counts what the rules of a pod are about.
func (s *peers) own(c *peerCounts, p *podInfo) {
	r := p.peers
	c.affinity, c.anti, c.spread = map[domain]int{}, map[domain]int{}, make([]spreadCounts, len(r.spread))
	for i := range c.spread {
		c.spread[i].counts = map[string]int{}
	}
	for _, n := range s.cluster.nodes {
		if len(r.affinity)+len(r.anti) > 0 {
			for _, q := range n.pods {
				s.countTerms(c, r, q.pod, n)
			}
		}
		countSpread(c.spread, p, n)
	}
	for i := range c.spread {
		c.spread[i].setLeast(r.spread[i].minDomains)
	}
}

// countTerms counts a placed pod for the terms of another. For affinity it
// counts when all terms are about it, as upstream.
func (s *peers) countTerms(c *peerCounts, r *peerRules, pod *corev1.Pod, n *nodeInfo) {
	if r.matchesAll(pod, s.namespaces) {
		for i := range r.affinity {
			if d, ok := domainOf(n, r.affinity[i].key); ok {
				c.affinity[d]++
			}
		}
	}
	for i := range r.anti {
		if d, ok := domainOf(n, r.anti[i].key); ok && r.anti[i].matches(pod, s.namespaces) {
			c.anti[d]++
		}
	}
}

// matchesAll says whether all affinity terms are about a pod.
func (r *peerRules) matchesAll(pod *corev1.Pod, namespaces map[string]labels.Set) bool {
	for i := range r.affinity {
		if !r.affinity[i].matches(pod, namespaces) {
			return false
		}
	}
	return len(r.affinity) > 0
}

// countSpread counts the pods of a node for each constraint of a pod. A node
// that lacks the key of any counts for none; each other one is a domain, if only
// an empty one.
func countSpread(out []spreadCounts, p *podInfo, n *nodeInfo) {
	for i := range p.peers.spread {
		if _, ok := domainOf(n, p.peers.spread[i].key); !ok {
			return
		}
	}
	for i := range p.peers.spread {
		r := &p.peers.spread[i]
		if !r.includes(p, n) {
			continue
		}
		d, _ := domainOf(n, r.key)
		out[i].counts[d.value] += r.on(p.pod.Namespace, n)
	}
}

// includes says whether a node counts, by where the pod itself could be.
func (r *spreadRule) includes(p *podInfo, n *nodeInfo) bool {
	if r.byAffinity && len(nodeAffinity(p, n, nil)) > 0 {
		return false
	}
	return !r.byTaints || len(taintToleration(p, n, nil)) == 0
}

// on counts the pods of a node that the constraint is about. Those that end are
// none: they make room.
func (r *spreadRule) on(namespace string, n *nodeInfo) (count int) {
	for _, q := range n.pods {
		if q.pod.Namespace == namespace && q.pod.DeletionTimestamp == nil && r.selector.Matches(labels.Set(q.pod.Labels)) {
			count++
		}
	}
	return count
}

// setLeast works out the smallest count of a domain; none where there are fewer
// domains than there must be.
func (s *spreadCounts) setLeast(minDomains int) {
	first := true
	for _, n := range s.counts {
		if first || n < s.least {
			s.least, first = n, false
		}
	}
	if len(s.counts) < minDomains {
		s.least = 0
	}
}
