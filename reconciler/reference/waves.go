package reference

import (
	"fmt"

	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// RunsPods says whether an object is healthy only when its pods run: a CronJob is
// whatever its pods come to.
func (f *Facts) RunsPods(h *render.Head) bool { return f.Pods != nil && h.Resource.Kind != "CronJob" }

// Holds says whether pods do not start without the object.
func (n *Need) Holds() bool {
	switch n.Ref.Resource.Kind {
	case "ConfigMap", "Secret", "ServiceAccount", "PersistentVolumeClaim", "PriorityClass", "RuntimeClass":
		return true
	}
	return false
}

// Later is the finding that the object is made only after the one that needs it
// is healthy: it is of a later wave, or depends on it.
func (n *Need) Later(h *render.Head, own, its int, depends bool) v1alpha1.Finding {
	how := fmt.Sprintf("is of wave %d, which begins when this object of wave %d is healthy", its, own)
	if depends {
		how = "depends on this object"
	}
	f := n.finding(h, RuleLater, fmt.Sprintf("%s %s: %s", n.Ref, how, n.Why))
	f.Hint = "the two wait for each other: give " + n.Ref.String() + " a wave that is not later"
	if depends {
		f.Hint = "the two wait for each other: remove the dependency"
	}
	return f
}
