package health

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// nodePool is healthy when all its nodes run what it says and are ready. One
// that has stopped is degraded, and stalled where only somebody gets it going
// again, so that the commit that names a bad image fails at once, with the words
// of the pool. One that is paused, or waits for its reboot window, is as its
// author wants it to be, and holds nobody up.
func nodePool(p *v1alpha1.NodePool) Health {
	if p.Status.ObservedGeneration < p.Generation || len(p.Status.Conditions) == 0 {
		return progressing(notSeen)
	}
	condition := func(kind string) (c metav1.Condition) {
		if found := meta.FindStatusCondition(p.Status.Conditions, kind); found != nil {
			c = *found
		}
		return c
	}
	stuck, stopped, ready := condition(v1alpha1.NodePoolStalled), condition(v1alpha1.NodePoolDegraded), condition(v1alpha1.NodePoolReady)
	switch {
	case stuck.Status == metav1.ConditionTrue:
		return stalled("%s", stuck.Message)
	case stopped.Status == metav1.ConditionTrue:
		return degraded("%s", stopped.Message)
	case ready.Status == metav1.ConditionTrue:
		return healthy()
	case ready.Reason == "Paused", ready.Reason == "OutsideWindow":
		return Health{Status: Healthy, Message: ready.Message}
	}
	return progressing("%s", ready.Message)
}

// nodeImage is healthy whatever nodes made of it: it is there to be named. That it
// has failed is the matter of the pools that name it, and a repository may keep
// it after they have gone back.
func nodeImage(i *v1alpha1.NodeImage) Health {
	if len(i.Status.Failed) == 0 {
		return healthy()
	}
	f := i.Status.Failed[0]
	text := "failed on node " + f.Node
	if f.Message != "" {
		text += ": " + f.Message
	}
	return Health{Status: Healthy, Message: text}
}
