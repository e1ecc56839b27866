package reconciler

import (
	"iter"
	"slices"
	"sync"

	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// reversed yields the references of what runs pods to what the commit makes only
// after that is healthy: it never is, and the later wave never comes. What the
// cluster has already is there in time.
func (ev *evaluation) reversed(c *cluster) iter.Seq2[want, v1alpha1.Finding] {
	return func(yield func(want, v1alpha1.Finding) bool) {
		if !ev.anyPlaced() {
			return
		}
		waves := sync.OnceValue(func() map[string]int { return plan.Waves(ev.gated()) })
		for w := range ev.refs.wants.All() {
			own := w.head()
			if !w.unit.facts[w.at].RunsPods(own) || !w.need().Holds() || ev.left[w.unit.Path] || c.has(w.to) {
				continue
			}
			to, ok := ev.headOf(w.to)
			if !ok || to.Wave <= own.Wave && len(to.DependsOn) == 0 {
				continue
			}
			mine, its := waves()[own.Object()], waves()[to.Object()]
			waits := slices.Contains(to.DependsOn, own.Object())
			if its <= mine && !waits {
				continue
			}
			if !yield(w, w.need().Later(own, mine, its, waits)) {
				return
			}
		}
	}
}

// headOf is what the tree says of an object that it declares.
func (e *evaluated) headOf(ref render.Ref) (*render.Head, bool) {
	u, ok := e.first(ref)
	if !ok {
		return nil, false
	}
	i := slices.IndexFunc(u.heads, func(h render.Head) bool { return h.Ref == ref })
	if i < 0 {
		return nil, false
	}
	return &u.heads[i], true
}
