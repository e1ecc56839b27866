package scheduler

// minFeasible is how many nodes that fit are always looked for.
const minFeasible = 100

// decision is the answer for one pod.
type decision struct {
	node    *nodeInfo // nil: none will do
	refusal *refusal  // why not
	// next is where the following decision should begin to look, so that all
	// nodes get their turn in a large cluster.
	next                int
	evaluated, feasible int
	score               int64
}

// decider decides. It keeps nothing between two decisions but buffers.
type decider struct {
	percentage int // of nodes to score; 0: by the size of the cluster

	feasible       []*nodeInfo
	totals, values []int64
	reasons        [8]string
}

// decide picks a node for a pod: it looks, from start on, for as many nodes
// that pass the filters as are worth comparing, and takes the best rated; of
// equals the first. It reads the nodes and changes nothing.
func (d *decider) decide(p *podInfo, nodes []*nodeInfo, start int) decision {
	want := d.enough(len(nodes))
	d.feasible = d.feasible[:0]
	var why *refusal
	seen := 0
	for ; seen < len(nodes) && len(d.feasible) < want; seen++ {
		n := nodes[(start+seen)%len(nodes)]
		if p.names != nil && !p.names[n.name] {
			continue
		}
		reasons, evictable := refusals(p, n, d.reasons[:0])
		if len(reasons) == 0 {
			d.feasible = append(d.feasible, n)
			continue
		}
		if why == nil {
			why = newRefusal(len(nodes))
		}
		why.add(n, reasons, evictable)
	}
	out := decision{evaluated: seen, feasible: len(d.feasible)}
	if len(nodes) > 0 {
		out.next = (start + seen) % len(nodes)
	}
	if len(d.feasible) == 0 {
		if why == nil {
			why = newRefusal(len(nodes))
		}
		out.refusal = why
		return out
	}
	out.node, out.score = d.best(p)
	return out
}

func (d *decider) best(p *podInfo) (*nodeInfo, int64) {
	if len(d.feasible) == 1 {
		return d.feasible[0], 0
	}
	d.totals, d.values = grown(d.totals, len(d.feasible)), grown(d.values, len(d.feasible))
	rate(p, d.feasible, d.totals, d.values)
	top := 0
	for i, v := range d.totals {
		if v > d.totals[top] {
			top = i
		}
	}
	return d.feasible[top], d.totals[top]
}

// enough is how many nodes that fit are worth comparing: all of a small
// cluster, and a share that falls from 50 % to 5 % as it grows.
func (d *decider) enough(nodes int) int {
	percentage := d.percentage
	if percentage == 0 {
		percentage = max(5, 50-nodes/125)
	}
	if nodes <= minFeasible || percentage >= 100 {
		return nodes
	}
	return max(minFeasible, nodes*percentage/100)
}

func grown(buf []int64, n int) []int64 {
	if cap(buf) < n {
		return make([]int64, n, n+n/4)
	}
	return buf[:n]
}
