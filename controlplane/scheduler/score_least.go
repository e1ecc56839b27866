package scheduler

// leastAllocated prefers nodes of which less is asked: the mean of the free
// shares of CPU and memory with the pod on it.
func leastAllocated(p *podInfo, n *nodeInfo) int64 {
	var sum, of int64
	for _, r := range [2][2]int64{
		{n.counted.milliCPU + p.counted.milliCPU, n.allocatable.milliCPU},
		{n.counted.memory + p.counted.memory, n.allocatable.memory},
	} {
		asked, has := r[0], r[1]
		if has == 0 {
			continue
		}
		of++
		if asked <= has {
			sum += (has - asked) * maxScore / has
		}
	}
	if of == 0 {
		return 0
	}
	return sum / of
}
