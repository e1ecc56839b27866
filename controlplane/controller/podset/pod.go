package podset

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/writ-os/writ/schema"
)

// Condition returns a condition of a pod, or nil.
func Condition(p *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == t {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// SetCondition puts a condition in the place of the pod's one of its type, as
// upstream's UpdatePodCondition; false when it says what is there already. The
// time of the last transition stays while the status is the same.
func SetCondition(p *corev1.Pod, c corev1.PodCondition) bool {
	have := Condition(p, c.Type)
	if have == nil {
		p.Status.Conditions = append(p.Status.Conditions, c)
		return true
	}
	if have.Status == c.Status {
		c.LastTransitionTime = have.LastTransitionTime
	}
	changed := have.Status != c.Status || have.Reason != c.Reason || have.Message != c.Message || have.ObservedGeneration != c.ObservedGeneration
	if changed {
		*have = c
	}
	return changed
}

// Ready says that the pod's Ready condition is true.
func Ready(p *corev1.Pod) bool {
	c := Condition(p, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// Available says that the pod has been ready for minReadySeconds.
func Available(p *corev1.Pod, minReadySeconds int32, now time.Time) bool {
	wait, ready := UntilAvailable(p, minReadySeconds, now)
	return ready && wait <= 0
}

// UntilAvailable returns how long a ready pod still has to stay so.
func UntilAvailable(p *corev1.Pod, minReadySeconds int32, now time.Time) (wait time.Duration, ready bool) {
	c := Condition(p, corev1.PodReady)
	if c == nil || c.Status != corev1.ConditionTrue {
		return 0, false
	}
	if minReadySeconds == 0 {
		return 0, true
	}
	least := time.Duration(minReadySeconds) * time.Second
	if c.LastTransitionTime.IsZero() {
		return least, true
	}
	return c.LastTransitionTime.Add(least).Sub(now), true
}

// Done says that the pod has ended for good.
func Done(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// Active says that the pod runs or will run.
func Active(p *corev1.Pod) bool { return !Done(p) && p.DeletionTimestamp == nil }

// Terminating says that the pod is asked to end and has not yet.
func Terminating(p *corev1.Pod) bool { return !Done(p) && p.DeletionTimestamp != nil }

// ActiveOf returns the active ones of pods.
func ActiveOf(pods []*corev1.Pod) []*corev1.Pod {
	out := make([]*corev1.Pod, 0, len(pods))
	for _, p := range pods {
		if Active(p) {
			out = append(out, p)
		}
	}
	return out
}

// FromTemplate returns a pod made from a template for its controller. The
// server gives it a name that begins with the owner's.
func FromTemplate(t *corev1.PodTemplateSpec, owner schema.Object) *corev1.Pod {
	tmpl := t.DeepCopy()
	r := schema.ResourceOf(owner)
	prefix := owner.GetName() + "-"
	if len(validation.IsDNS1123Subdomain(prefix+"x")) > 0 {
		prefix = owner.GetName()
	}
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       owner.GetNamespace(),
			GenerateName:    prefix,
			Labels:          tmpl.Labels,
			Annotations:     tmpl.Annotations,
			Finalizers:      tmpl.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, r.GVK())},
		},
		Spec: tmpl.Spec,
	}
}
