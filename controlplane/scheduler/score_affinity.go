package scheduler

// preferredAffinity sums the weights of the preferred terms that a node meets.
func preferredAffinity(p *podInfo, n *nodeInfo) int64 { return p.preferred.Score(n.node) }

func noPreference(p *podInfo) bool { return p.preferred == nil }
