// Package scheduler gives every pending pod a node, or says why none will do.
//
//	events ──> mailbox ──> cluster (nodes, pods on them, assumed pods)
//	                  └──> queue (active, backing off, unschedulable)
//	queue.pop ──> decide (filters, scores: pure) ──> assume ──> binder ──> pods/binding
//
// Watches Nodes and Pods. Owns the binding of pods whose schedulerName is its
// own and which have no node yet, and their PodScheduled condition while it is
// False.
//
// One goroutine owns all state, so that deciding needs neither locks nor a
// copied snapshot: a decision costs what it looks at, and an event what it
// changes. A pod counts on its node from the moment of the decision; a failed
// binding takes it back. A pod that nothing fits waits until a node changes so
// that it would fit there, which is checked against that node alone.
package scheduler
