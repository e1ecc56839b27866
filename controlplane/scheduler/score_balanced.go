package scheduler

import "math"

// balancedAllocation prefers nodes whose CPU and memory the pod brings closer
// to being used alike, so that neither is left over when the other is gone.
// About 75 is no change, 100 the best and 50 the worst.
func balancedAllocation(p *podInfo, n *nodeInfo) int64 {
	with := balance(n.asked.milliCPU+p.asked.milliCPU, n.asked.memory+p.asked.memory, n)
	without := balance(n.asked.milliCPU, n.asked.memory, n)
	return maxScore/2 + (maxScore/2+with-without)/2
}

func balance(milliCPU, memory int64, n *nodeInfo) int64 {
	if n.allocatable.milliCPU == 0 || n.allocatable.memory == 0 {
		return maxScore
	}
	cpu := min(1, float64(milliCPU)/float64(n.allocatable.milliCPU))
	mem := min(1, float64(memory)/float64(n.allocatable.memory))
	return int64((1 - math.Abs(cpu-mem)/2) * maxScore)
}
