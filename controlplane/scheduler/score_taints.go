package scheduler

// tolerableTaints counts the taints that only put pods off (PreferNoSchedule)
// and that the pod does not tolerate.
func tolerableTaints(p *podInfo, n *nodeInfo) int64 {
	var count int64
	for i := range n.soft {
		if !tolerates(p, &n.soft[i].Taint) {
			count++
		}
	}
	return count
}
