package nodepool

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// retried returns a copy of the image, without its failures where somebody asks
// to try it again.
func retried(i *v1alpha1.NodeImage) *v1alpha1.NodeImage {
	i = i.DeepCopy()
	if word := i.Annotations[v1alpha1.RetryAnnotation]; word != i.Status.Retried {
		i.Status.Retried = word
		if word != "" {
			i.Status.Failed = nil
		}
	}
	return i
}

// failures notes in the images which nodes they have failed on.
func (p *planning) failures() {
	for _, m := range p.machines {
		i := p.image[cmp.Or(m.reboot, m.desired)]
		switch {
		case i == nil:
		case m.failed == i.Name:
			p.failed(i, m, v1alpha1.ReasonImageFailed, m.message)
		case m.step == rebooting && !m.since.IsZero() && !m.arrived(i) && p.now.Sub(m.since) >= comeBack:
			p.failed(i, m, v1alpha1.ReasonNodeLost, fmt.Sprintf("not back %s after the order to reboot", comeBack))
		}
	}
	for _, g := range p.groups {
		i := p.image[g.pool.Spec.Image]
		for _, m := range g.machines {
			if i != nil && m.step == unsettled && !m.since.IsZero() && m.runs(i, g.arguments) && p.now.Sub(m.since) >= comeBack {
				p.failed(i, m, v1alpha1.ReasonNodeLost, fmt.Sprintf("came back and was not ready for %s", comeBack))
			}
		}
	}
}

// failed notes one failure. Where the image ran before, with other kernel
// arguments, it is these that failed.
func (p *planning) failed(i *v1alpha1.NodeImage, m *machine, reason, message string) {
	if has(i, m.Name) {
		return
	}
	f := v1alpha1.NodeImageFailure{Node: m.Name, Reason: reason, Message: bounded(message), Time: metav1.NewTime(p.now.Truncate(time.Second))}
	if m.version == i.Spec.Version && m.desired == i.Name && m.arguments != v1alpha1.KernelArgumentsHash(m.desiredArguments) {
		f.Reason, f.KernelArguments = v1alpha1.ReasonKernelArgumentsFailed, m.desiredArguments
	}
	i.Status.Failed = append(i.Status.Failed, f)
}

// has says whether the failure of an image on a node is remembered. A list that
// is full remembers all.
func has(i *v1alpha1.NodeImage, node string) bool {
	return i != nil && (len(i.Status.Failed) >= most || slices.ContainsFunc(i.Status.Failed, func(f v1alpha1.NodeImageFailure) bool { return f.Node == node }))
}

// failed says of a pool that its image failed, and what to do.
func failed(i *v1alpha1.NodeImage, f *v1alpha1.NodeImageFailure) halt {
	what, other := i.Name, "or name another image"
	if f.Reason == v1alpha1.ReasonKernelArgumentsFailed {
		what, other = fmt.Sprintf("%s with the kernel arguments %q", i.Name, f.KernelArguments), "or name others"
	}
	text := fmt.Sprintf("%s failed on node %s", what, f.Node)
	if f.Message != "" {
		text += ": " + f.Message
	}
	if f.Reason == v1alpha1.ReasonNodeLost {
		text += "; look after it, or delete the Node if the machine is gone"
	}
	return halt{f.Reason, fmt.Sprintf("%s. No other node is touched: revert the commit, %s; to try it again, annotate NodeImage %s with %s", text, other, i.Name, v1alpha1.RetryAnnotation)}
}

// imageStatus is the status of an image with its condition.
func imageStatus(i *v1alpha1.NodeImage, now time.Time) v1alpha1.NodeImageStatus {
	s := i.Status
	s.ObservedGeneration = i.Generation
	c := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Usable", ObservedGeneration: i.Generation, LastTransitionTime: metav1.NewTime(now)}
	if len(s.Failed) > 0 {
		f := &s.Failed[0]
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, f.Reason, failed(i, f).message
	}
	meta.SetStatusCondition(&s.Conditions, c)
	return s
}

// bounded shortens what a node says of itself.
func bounded(s string) string {
	const limit = 512
	if r := []rune(s); len(r) > limit {
		return string(r[:limit]) + "..."
	}
	return s
}
