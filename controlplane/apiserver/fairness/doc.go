// Package fairness decides which requests run now, which wait and which are
// turned away, so that a flood from one client starves nobody else (KEP-1040).
//
// It watches FlowSchemas and PriorityLevelConfigurations, and owns the seats
// of the API server. A request is classified by the first FlowSchema that
// matches it; its priority level has a guaranteed number of seats, borrows
// those that others do not use, and lets its flows take turns. It promises
// that every level gets its guaranteed seats whatever the others do, that the
// flows of one level are served in turn, that waiting is bounded in time and
// in number, and that deciding costs a microsecond.
//
// Upstream spreads flows over shuffled queues; here each flow that waits has a
// queue of its own, which is fair without luck. Requests take one seat each.
package fairness
