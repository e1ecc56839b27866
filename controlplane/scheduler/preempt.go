package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// maxCandidates bounds how many nodes are compared for making room.
const maxCandidates = 100

// preemption is where a pod gets room, and from whom. Without a node, text says
// why nowhere.
type preemption struct {
	node    *nodeInfo
	victims []*corev1.Pod
	text    string
}

// preempt looks for the node on which the fewest and least important pods have
// to leave so that a pod fits. It changes nothing.
func preempt(p *podInfo, why *refusal, c *cluster) preemption {
	if pol := p.pod.Spec.PreemptionPolicy; pol != nil && *pol == corev1.PreemptNever {
		return preemption{text: "not eligible due to preemptionPolicy=Never."}
	}
	if waitsForVictims(p, c) {
		return preemption{text: "not eligible due to a terminating pod on the nominated node."}
	}
	if why.nodes == 0 {
		return preemption{}
	}
	var best candidate
	without := 0
	for i, n := range why.evictable {
		if i >= maxCandidates && best.node != nil {
			break
		}
		victims := victimsOn(p, n)
		if victims == nil {
			without++
			continue
		}
		if cand := (candidate{n, victims}); best.node == nil || cand.better(best) {
			best = cand
		}
	}
	if best.node == nil {
		return preemption{text: refusedPreemption(why.nodes, why.nodes-len(why.evictable), without)}
	}
	out := preemption{node: best.node}
	for _, v := range best.victims {
		out.victims = append(out.victims, v.pod)
	}
	return out
}

func refusedPreemption(nodes, hopeless, without int) string {
	var counts []string
	if hopeless > 0 {
		counts = append(counts, fmt.Sprintf("%d Preemption is not helpful for scheduling", hopeless))
	}
	if without > 0 {
		counts = append(counts, fmt.Sprintf("%d No preemption victims found for incoming pod", without))
	}
	slices.Sort(counts)
	return fmt.Sprintf("0/%d nodes are available: %s.", nodes, strings.Join(counts, ", "))
}

// waitsForVictims says whether room is being made for the pod already.
func waitsForVictims(p *podInfo, c *cluster) bool {
	n := c.byName[p.nominated]
	if n == nil {
		return false
	}
	for _, other := range n.pods {
		if other.priority < p.priority && other.pod.DeletionTimestamp != nil {
			return true
		}
	}
	return false
}

// victimsOn returns whom a pod has to push out to fit on a node: of all less
// important pods, those that cannot stay, the most important staying first. nil
// when even all of them are not enough. The account of the node is changed
// meanwhile and is then as it was.
func victimsOn(p *podInfo, n *nodeInfo) []*podInfo {
	var lower []*podInfo
	for _, other := range n.pods {
		if other.priority < p.priority {
			lower = append(lower, other)
		}
	}
	if len(lower) == 0 {
		return nil
	}
	slices.SortFunc(lower, moreImportant)
	for _, v := range lower {
		n.take(v)
	}
	if !fits(p, n) {
		for _, v := range lower {
			n.put(v)
		}
		return nil
	}
	var victims []*podInfo
	for _, v := range lower {
		n.put(v)
		if !fits(p, n) {
			n.take(v)
			victims = append(victims, v)
		}
	}
	for _, v := range victims {
		n.put(v)
	}
	return victims
}

// moreImportant orders by priority, then by who has run longer.
func moreImportant(a, b *podInfo) int {
	if c := cmp.Compare(b.priority, a.priority); c != 0 {
		return c
	}
	if s, t := a.pod.Status.StartTime, b.pod.Status.StartTime; s != nil && t != nil && !s.Equal(t) {
		return s.Time.Compare(t.Time)
	}
	return cmp.Compare(a.key.String(), b.key.String())
}

// candidate is a node with those who would have to leave it.
type candidate struct {
	node    *nodeInfo
	victims []*podInfo // the most important first
}

// better prefers the node whose most important victim is the least important,
// then the smaller sum of priorities, then fewer victims, then the name.
func (c candidate) better(than candidate) bool {
	if d := cmp.Compare(c.victims[0].priority, than.victims[0].priority); d != 0 {
		return d < 0
	}
	if d := cmp.Compare(sum(c.victims), sum(than.victims)); d != 0 {
		return d < 0
	}
	if d := cmp.Compare(len(c.victims), len(than.victims)); d != 0 {
		return d < 0
	}
	return c.node.name < than.node.name
}

// sum adds up priorities, shifted so that each victim counts even when its
// priority is negative.
func sum(victims []*podInfo) int64 {
	var s int64
	for _, v := range victims {
		s += int64(v.priority) + 1<<31
	}
	return s
}
