package nodepool

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// idle prepares a node that is not in work: what can be done while it serves.
func (p *planning) idle(g *group, m *machine) {
	switch {
	case !m.ours:
	case m.desired != "" && m.failed == m.desired && has(p.image[m.desired], m.Name) && !has(p.stored[m.desired], m.Name):
		p.do(step{action: fail, node: m.Name, image: m.desired, why: m.message})
	case m.desired != "" && m.failed == m.desired:
		p.do(step{action: forget, node: m.Name, why: m.desired + " failed, and that is remembered"})
	case g.image == nil || m.runs(g.image, g.arguments):
		if m.desired != "" && g.stopped.reason == "" {
			p.do(step{action: forget, node: m.Name, why: "it is as it should be"})
		}
	case g.stopped.reason != "":
	case !m.suits(g.image):
		g.unsuited = append(g.unsuited, m.Name)
	case g.held.reason == "Paused":
	case m.desired != "" && (m.desired != g.image.Name || m.desiredArguments != g.arguments):
		p.do(step{action: forget, node: m.Name, why: "the pool wants something else now"})
	case m.desired == "" && (m.failed == g.image.Name || m.phase != v1alpha1.UpdateIdle && m.phase != ""):
		p.waits(g, m, fmt.Sprintf("its agent has yet to drop what it did before (%s)", m.phase))
	case m.desired == "":
		if g.staging < stageAhead {
			g.staging++
			p.do(step{action: stage, node: m.Name, image: g.image.Name, arguments: g.arguments})
		}
	case m.phase != v1alpha1.UpdateStaged:
		g.staging++
		p.waits(g, m, staged(m))
	}
}

// begin begins with those nodes of a pool that may be away now.
func (p *planning) begin(g *group) {
	if g.image == nil || g.stopped.reason != "" || len(g.overdue) > 0 {
		return
	}
	away := 0
	for _, m := range g.machines {
		if m.away() {
			away++
		}
	}
	for _, m := range g.machines {
		if m.step != "" || !m.ours || m.phase != v1alpha1.UpdateStaged || m.failed == g.image.Name || m.desired != g.image.Name ||
			m.desiredArguments != g.arguments || m.runs(g.image, g.arguments) || !m.suits(g.image) {
			continue
		}
		why := g.held.message
		if why == "" {
			why = p.mayBegin(g, m, away)
		}
		if why != "" {
			p.waits(nil, m, why)
			g.waiting = append(g.waiting, m.Name+": "+why)
			continue
		}
		p.do(step{action: cordon, node: m.Name, next: note(draining, p.now), why: "it is its turn to run " + g.image.Name})
		m.step, m.since = draining, p.now // those that follow see it away
		away++
	}
}

// mayBegin says what a node waits for that is ready to be taken away where so
// many of its pool are away; "" when it may.
func (p *planning) mayBegin(g *group, m *machine, away int) string {
	if !m.ready {
		return "it is not ready"
	}
	if m.controlPlane {
		if why := p.quorum(m); why != "" {
			return why
		}
	}
	if budget := g.budget(); away+1 > budget {
		return fmt.Sprintf("%s away, %d may be", count(away, "node is", "nodes are"), budget)
	}
	for _, pod := range p.pods(m.Name) {
		if !stays(pod) && pod.DeletionTimestamp == nil {
			if why := homeless(pod); why != "" {
				p.wake(lookAgain)
				return why // before it is cordoned for nothing
			}
		}
	}
	return ""
}

// quorum says why a control-plane node may not be away: the members of the
// store are counted over all pools, and those in none. Of n, (n-1)/2 may be
// away; one at a time is never more, but of two. A cluster of one goes away
// with its node.
func (p *planning) quorum(m *machine) string {
	for _, o := range p.servers {
		if o != m && !o.ready {
			return fmt.Sprintf("control-plane node %s is not ready", o.Name)
		}
		if o != m && o.step != "" && (o.step != draining || m.step != draining || o.Name < m.Name) {
			return fmt.Sprintf("control-plane node %s is in work, and they go one at a time", o.Name)
		}
	}
	if len(p.servers) == 2 {
		return "of two control-plane nodes none can be away: the store would lose its quorum; add a third, or take one out"
	}
	return ""
}

// budget is how many nodes of the pool may be away.
func (g *group) budget() int {
	limit := g.pool.Spec.Update.MaxUnavailable
	if limit == nil {
		return 1
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(limit, len(g.machines), false)
	if err != nil {
		return 1
	}
	return max(n, 1)
}

func (g *group) drainTimeout() time.Duration {
	if d := g.pool.Spec.Update.DrainTimeout; d != nil {
		return d.Duration
	}
	return defaultDrainTimeout
}

func (g *group) settle() time.Duration {
	if d := g.pool.Spec.Update.Settle; d != nil {
		return d.Duration
	}
	return defaultSettle
}
