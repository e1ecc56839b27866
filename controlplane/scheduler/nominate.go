package scheduler

// A pod for which others leave a node is nominated to it: until it is bound,
// pods that are not more important are placed as if it were there already.
// Otherwise they would take the room that is being made.

// nominate keeps the room on a node for a pod.
func (s *Scheduler) nominate(w *waiting, n *nodeInfo) {
	s.unnominate(w)
	p := *w.podInfo
	p.nominated = n.name
	w.podInfo = &p
	n.nominated = append(n.nominated, w.podInfo)
}

// unnominate gives the room back.
func (s *Scheduler) unnominate(w *waiting) {
	n := s.cluster.byName[w.nominated]
	if w.nominated == "" || n == nil {
		return
	}
	kept := n.nominated[:0]
	for _, p := range n.nominated {
		if p.key != w.key {
			kept = append(kept, p)
		}
	}
	n.nominated = kept
	p := *w.podInfo
	p.nominated = ""
	w.podInfo = &p
	s.freed(n)
}

// withNominated calls fn with the pods counted that are nominated to the node
// and at least as important as p.
func withNominated(p *podInfo, n *nodeInfo, fn func()) {
	var added []*podInfo
	for _, o := range n.nominated {
		if o.key != p.key && o.priority >= p.priority {
			n.put(o)
			added = append(added, o)
		}
	}
	fn()
	for _, o := range added {
		n.take(o)
	}
}
