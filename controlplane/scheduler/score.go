package scheduler

// maxScore is the best that a node can have in one score.
const maxScore = 100

// score rates the nodes that passed the filters. of looks at its two arguments
// and nothing else; normalize, where set, turns raw values into 0 to maxScore.
type score struct {
	name      string
	weight    int64
	of        func(p *podInfo, n *nodeInfo) int64
	normalize func(p *podInfo, nodes []*nodeInfo, values []int64)
	// skip says that the score is the same for all nodes.
	skip func(p *podInfo) bool
}

// scores with the weights of upstream's default profile.
var scores = []score{
	{name: "TaintToleration", weight: 3, of: tolerableTaints, normalize: fewerIsBetter},
	{name: "NodeAffinity", weight: 2, of: preferredAffinity, normalize: moreIsBetter, skip: noPreference},
	{name: "NodeResourcesFit", weight: 1, of: leastAllocated},
	{name: "PodTopologySpread", weight: 2, of: siblings, normalize: spread, skip: noSiblings},
	{name: "NodeResourcesBalancedAllocation", weight: 1, of: balancedAllocation},
}

// rate returns the sum of all scores for each node. totals and values are
// buffers of the length of nodes.
func rate(p *podInfo, nodes []*nodeInfo, totals, values []int64) {
	clear(totals)
	for i := range scores {
		s := &scores[i]
		if s.skip != nil && s.skip(p) {
			continue
		}
		for j, n := range nodes {
			values[j] = s.of(p, n)
		}
		if s.normalize != nil {
			s.normalize(p, nodes, values)
		}
		for j, v := range values {
			totals[j] += v * s.weight
		}
	}
}

// moreIsBetter gives the largest value maxScore and the others their share.
func moreIsBetter(_ *podInfo, _ []*nodeInfo, values []int64) {
	top := largest(values)
	if top == 0 {
		return
	}
	for i := range values {
		values[i] = values[i] * maxScore / top
	}
}

// fewerIsBetter gives zero maxScore and the largest value nothing.
func fewerIsBetter(_ *podInfo, _ []*nodeInfo, values []int64) {
	top := largest(values)
	for i := range values {
		if top == 0 {
			values[i] = maxScore
		} else {
			values[i] = maxScore - values[i]*maxScore/top
		}
	}
}

func largest(values []int64) int64 {
	var top int64
	for _, v := range values {
		top = max(top, v)
	}
	return top
}
