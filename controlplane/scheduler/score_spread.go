package scheduler

// zoneShare is how much of the spread score is the zone's, in thirds.
const zoneShare = 2

// siblings counts the pods of the same controller on a node.
func siblings(p *podInfo, n *nodeInfo) int64 { return int64(n.owners[p.owner]) }

func noSiblings(p *podInfo) bool { return p.owner == "" }

// spread prefers nodes with fewer siblings, and zones with fewer of them where
// nodes say their zone: two thirds of the score are the zone's.
func spread(_ *podInfo, nodes []*nodeInfo, values []int64) {
	top := largest(values)
	var zones map[string]int64
	for i, n := range nodes {
		if n.zone != "" {
			if zones == nil {
				zones = map[string]int64{}
			}
			zones[n.zone] += values[i]
		}
	}
	var topZone int64
	for _, v := range zones {
		topZone = max(topZone, v)
	}
	for i, n := range nodes {
		v := share(values[i], top)
		if n.zone != "" {
			v = ((3-zoneShare)*v + zoneShare*share(zones[n.zone], topZone)) / 3
		}
		values[i] = v
	}
}

func share(value, top int64) int64 {
	if top == 0 {
		return maxScore
	}
	return maxScore * (top - value) / top
}
