package nodepool

import (
	"fmt"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// inWork takes a node of a pool that is in work one step on.
func (p *planning) inWork(g *group, m *machine) {
	if m.since.IsZero() {
		p.do(step{action: mark, node: m.Name, next: note(m.step, p.now), why: "the note of what is done with it was lost"})
		return
	}
	switch m.step {
	case draining:
		p.drains(g, m)
	case rebooting:
		p.reboots(g, m)
	case settling, unsettled:
		p.settles(g, m)
	}
}

// waits says what a node in work waits for.
func (p *planning) waits(g *group, m *machine, why string) {
	p.do(step{action: wait, node: m.Name, why: why})
	if g != nil {
		g.waiting = append(g.waiting, m.Name+": "+why)
		g.messages[m.Name] = why
	}
}

// release puts a node back as it was: it need not, or may not, go on.
func (p *planning) release(m *machine, why string) {
	p.do(step{action: uncordon, node: m.Name, why: why})
}

// drains empties a node and reboots it.
func (p *planning) drains(g *group, m *machine) {
	if why := g.pointless(m); why != "" {
		p.release(m, why)
		return
	}
	if !m.Spec.Unschedulable {
		p.do(step{action: cordon, node: m.Name, next: note(draining, m.since), why: "somebody let pods onto it"})
		return
	}
	d := p.allowances.look(p.pods(m.Name))
	why := d.why()
	if d.empty() {
		if why = p.mayReboot(g, m); why == "" {
			p.do(step{action: reboot, node: m.Name, image: g.image.Name, next: note(rebooting, p.now), why: "it is drained"})
			m.step, m.since = rebooting, p.now // those that follow see it away
			return
		}
	}
	if d.empty() {
		p.waits(g, m, why)
		return
	}
	if timeout := g.drainTimeout(); p.until(m.since, timeout) {
		g.overdue = append(g.overdue, fmt.Sprintf("node %s is not drained after %s: %s", m.Name, timeout, why))
	}
	p.wake(evictAgain)
	if len(d.evict) == 0 {
		p.waits(g, m, why)
		return
	}
	p.do(step{action: evict, node: m.Name, pods: d.evict, why: why})
	g.messages[m.Name] = why
	g.waiting = append(g.waiting, m.Name+": "+why)
}

// pointless says why a node that is being drained is not to be rebooted any
// more.
func (g *group) pointless(m *machine) string {
	switch {
	case g.pool.Spec.Image == "":
		return "the pool names no image any more"
	case g.stopped.reason != "":
		return g.stopped.message
	case m.runs(g.image, g.arguments):
		return "it runs " + g.image.Name
	case m.desired != g.image.Name || m.desiredArguments != g.arguments:
		return "the pool wants something else now"
	}
	return g.shut
}

// mayReboot says what an empty node still waits for. What has changed since it
// was begun counts: another node may have gone away.
func (p *planning) mayReboot(g *group, m *machine) string {
	switch {
	case !m.ready:
		return "it is not ready"
	case m.phase != v1alpha1.UpdateStaged:
		return staged(m)
	}
	if m.controlPlane {
		return p.quorum(m)
	}
	away := 0
	for _, o := range g.machines {
		// Of two that are drained, the first goes first.
		if o != m && (!o.ready || o.step != "" && (o.step != draining || o.Name < m.Name)) {
			away++
		}
	}
	if budget := g.budget(); away+1 > budget {
		return fmt.Sprintf("%s away, %d may be", count(away, "other node is", "other nodes are"), budget)
	}
	return ""
}

// staged says how far the agent is.
func staged(m *machine) string {
	phase := m.phase
	if phase == "" {
		phase = v1alpha1.UpdateIdle
	}
	text := fmt.Sprintf("it fetches %s (%s)", m.desired, phase)
	if m.message != "" {
		text = fmt.Sprintf("it fetches %s (%s: %s)", m.desired, phase, m.message)
	}
	return text
}

// reboots waits for a node to come back. Nobody can call it back: a pool that
// is paused, stopped or turned back waits for it too.
func (p *planning) reboots(g *group, m *machine) {
	i := p.image[m.reboot]
	switch {
	case i == nil && m.ready && !m.booting():
		p.do(step{action: uncordon, node: m.Name, next: note(settling, p.now), why: "it is back; the NodeImage it went for is gone"})
	case i == nil:
		p.waits(g, m, "it reboots into "+m.reboot)
	case m.arrived(i):
		p.do(step{action: uncordon, node: m.Name, next: note(settling, p.now), why: "it runs " + i.Name})
	case !has(p.image[m.reboot], m.Name):
		p.until(m.since, comeBack)
		p.waits(g, m, fmt.Sprintf("it reboots into %s, since %s", m.reboot, m.since.UTC().Format("15:04:05 MST")))
	case !has(p.stored[m.reboot], m.Name):
		// Remembered first: an image that failed is not tried on another node,
		// whatever happens to us now.
		p.do(step{action: fail, node: m.Name, image: m.reboot, why: m.message})
	case m.ready && !m.booting():
		p.release(m, m.reboot+" failed, and it is well on what it runs")
	default:
		p.waits(g, m, m.reboot+" failed, and it is not back")
	}
}

// settles watches a node that has come back.
func (p *planning) settles(g *group, m *machine) {
	switch {
	case m.step == settling && !m.ready:
		p.do(step{action: mark, node: m.Name, next: note(unsettled, p.now), why: "it is not ready any more"})
	case m.step == unsettled && m.ready:
		p.do(step{action: mark, node: m.Name, next: note(settling, p.now), why: "it is ready again"})
	case m.step == unsettled:
		if i := p.image[g.pool.Spec.Image]; i != nil && has(i, m.Name) && !has(p.stored[i.Name], m.Name) {
			p.do(step{action: fail, node: m.Name, image: i.Name, why: "it came back and is not ready"})
			return
		}
		p.until(m.since, comeBack)
		p.waits(g, m, "it came back and is not ready")
	case p.until(m.since, g.settle()):
		// The next one begins when this is written.
		p.do(step{action: mark, node: m.Name, why: "it is well"})
	default:
		p.waits(g, m, "it runs and is watched")
	}
}

// leave winds up what was begun with a node that is in no pool any more.
func (p *planning) leave(m *machine) {
	switch m.step {
	case draining:
		p.release(m, "it is in no pool any more")
	case rebooting:
		if m.ready && !m.booting() {
			p.release(m, "it is in no pool any more")
		}
	case settling, unsettled:
		p.do(step{action: mark, node: m.Name, why: "it is in no pool any more"})
	default:
		if m.desired != "" {
			p.do(step{action: forget, node: m.Name, why: "it is in no pool any more"})
		}
	}
}
