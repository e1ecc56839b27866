package nodepool

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// status is what to say of a pool.
func (p *planning) status(g *group) v1alpha1.NodePoolStatus {
	was := g.pool.Status.DeepCopy()
	s := v1alpha1.NodePoolStatus{ObservedGeneration: g.pool.Generation, Image: g.pool.Spec.Image, Nodes: int32(len(g.machines)), Conditions: was.Conditions}
	behind, work := 0, 0
	for _, m := range g.machines {
		switch {
		case !m.ours:
			s.Foreign++
		case g.pool.Spec.Image == "" || g.image != nil && m.runs(g.image, g.arguments):
			s.Updated++
		default:
			behind++
		}
		if m.ready {
			s.Ready++
		}
		if !m.ready || m.step == draining || m.step == rebooting {
			s.Unavailable++
		}
		if m.step == "" {
			continue
		}
		work++
		if len(s.Current) < most {
			s.Current = append(s.Current, v1alpha1.NodePoolNode{Node: m.Name, Step: m.step, Since: metav1.NewTime(m.since.Truncate(time.Second)), Message: bounded(g.messages[m.Name])})
		}
	}
	v := g.verdict(&s, behind, work)
	s.Message = v.message
	p.conditions(g, &s, v)
	return s
}

// verdict is what the conditions say.
type verdict struct {
	halt
	ready, progressing, degraded bool
	// stalled is degraded until what is declared changes, or somebody acts.
	stalled bool
}

// verdict judges the pool: what needs somebody goes before what needs time.
func (g *group) verdict(s *v1alpha1.NodePoolStatus, behind, work int) verdict {
	switch {
	case g.stopped.reason != "" && (behind+work > 0 || g.image == nil):
		// An image that is not there may come with the same commit, a moment later.
		return verdict{halt: g.stopped, degraded: true, stalled: g.image != nil}
	case len(g.overdue) > 0:
		return verdict{halt: halt{"DrainBlocked", strings.Join(g.overdue, ". ") + ". No other node begins until it is"}, degraded: true}
	case len(g.unsuited) > 0:
		return verdict{halt: halt{"WrongArchitecture", fmt.Sprintf("%s is for %s, and these nodes are not: %s", g.image.Name, g.image.Spec.Arch, list(g.unsuited))}, degraded: true}
	case g.held.reason == "InvalidWindow" && behind+work > 0:
		return verdict{halt: g.held, degraded: true, stalled: true}
	case len(g.unset()) > 0:
		return verdict{halt: halt{"SettingsNotApplied", "these nodes are not as the pool says: " + list(g.unset())}, degraded: true}
	case behind+work > 0:
		return g.underWay(s, behind, work)
	case s.Ready < s.Nodes:
		return verdict{halt: halt{"NodesNotReady", fmt.Sprintf("%d of %d nodes are not ready", s.Nodes-s.Ready, s.Nodes)}, progressing: true}
	}
	v := verdict{halt: halt{"UpToDate", fmt.Sprintf("%s up to date", count(int(s.Updated), "node is", "nodes are"))}, ready: true}
	switch {
	case g.pool.Spec.Image == "":
		v.halt = halt{"NoImage", "the pool names no image: the operating system of its nodes is left alone"}
	case s.Nodes == 0:
		v.halt = halt{"NoNodes", "no node belongs to the pool"}
	}
	v.message += g.foreign(s)
	return v
}

// unset are the nodes that cannot make the settings of the pool, and why.
func (g *group) unset() []string {
	var out []string
	for _, m := range g.machines {
		if m.unset != "" {
			out = append(out, m.Name+": "+m.unset)
		}
	}
	return out
}

// underWay is the verdict on a pool that is neither done nor stuck.
func (g *group) underWay(s *v1alpha1.NodePoolStatus, behind, work int) verdict {
	v := verdict{halt: halt{reason: "Updating"}, progressing: true}
	v.message = fmt.Sprintf("%d of %d nodes are updated", s.Updated, s.Nodes-s.Foreign)
	switch {
	case work == 0 && g.held.reason != "":
		// It waits for what its author has chosen, and for nothing else.
		v.reason, v.progressing = g.held.reason, g.held.reason != "Paused"
		v.message += "; " + g.held.message
	case len(g.waiting) > 0:
		v.message += "; " + list(g.waiting)
	case behind == 0:
		v.message += "; the last is watched"
	}
	v.message += g.foreign(s)
	return v
}

// foreign says which nodes are left alone.
func (g *group) foreign(s *v1alpha1.NodePoolStatus) string {
	if s.Foreign == 0 || g.pool.Spec.Image == "" {
		return ""
	}
	return fmt.Sprintf("; %s not made from an image and left alone", count(int(s.Foreign), "node was", "nodes were"))
}

// list writes the first few of some words.
func list(words []string) string {
	const few = 3
	if len(words) <= few {
		return strings.Join(words, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(words[:few], "; "), len(words)-few)
}

// conditions writes the verdict as conditions, by the conventions of kstatus.
func (p *planning) conditions(g *group, s *v1alpha1.NodePoolStatus, v verdict) {
	for _, c := range []struct {
		kind string
		is   bool
	}{{v1alpha1.NodePoolReady, v.ready}, {v1alpha1.NodePoolProgressing, v.progressing}, {v1alpha1.NodePoolDegraded, v.degraded}, {v1alpha1.NodePoolStalled, v.stalled}} {
		status := metav1.ConditionFalse
		if c.is {
			status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{
			Type: c.kind, Status: status, Reason: v.reason, Message: v.message, ObservedGeneration: g.pool.Generation, LastTransitionTime: metav1.NewTime(p.now),
		})
	}
}
