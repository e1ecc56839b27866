package scheduler

import (
	"fmt"
	"slices"
	"strings"
)

const (
	reasonNotNamed = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
	noNodes        = "no nodes available to schedule pods"
)

// refusal says why no node will do: every node is counted under each of its
// reasons.
type refusal struct {
	nodes   int
	refused int
	reasons map[string]int
	// evictable are the nodes where others would have to leave; the rest would
	// refuse the pod even if they were empty.
	evictable []*nodeInfo
	// preemption is what became of making room; "" when it was not tried.
	preemption string
}

func newRefusal(nodes int) *refusal { return &refusal{nodes: nodes, reasons: map[string]int{}} }

func (r *refusal) add(n *nodeInfo, reasons []string, evictable bool) {
	r.refused++
	for _, reason := range reasons {
		r.reasons[reason]++
	}
	if evictable {
		r.evictable = append(r.evictable, n)
	}
}

// String is upstream's text: "0/3 nodes are available: 1 node(s) were
// unschedulable, 2 Insufficient cpu. preemption: ...".
func (r *refusal) String() string {
	if r.nodes == 0 {
		return noNodes
	}
	counts := make([]string, 0, len(r.reasons)+1)
	for reason, n := range r.reasons {
		counts = append(counts, fmt.Sprintf("%d %s", n, reason))
	}
	if absent := r.nodes - r.refused; absent > 0 {
		counts = append(counts, fmt.Sprintf("%d %s", absent, reasonNotNamed))
	}
	slices.Sort(counts)
	text := fmt.Sprintf("0/%d nodes are available: %s.", r.nodes, strings.Join(counts, ", "))
	if r.preemption != "" {
		text += " preemption: " + r.preemption
	}
	return text
}
