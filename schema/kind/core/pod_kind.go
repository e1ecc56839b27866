package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind"
	"github.com/writ-os/writ/schema/kind/valid"
)

// Pod is the judge of its kind.
var Pod = &kind.Kind{
	Resource:   schema.ResourceFor[*corev1.Pod](),
	Generation: true,
	Normalize:  func(o schema.Object) { podNormal(o.(*corev1.Pod)) },
	PrepareCreate: func(o schema.Object) {
		pod := o.(*corev1.Pod)
		pod.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: qosOf(pod)}
		mergeLabelKeys(pod)
		if len(pod.Spec.SchedulingGates) > 0 {
			SetPodCondition(pod, corev1.PodCondition{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated,
				Message: "Scheduling is blocked due to non-empty scheduling gates",
			})
		}
	},
	PrepareStatus:  func(o, old schema.Object) { podStatus(o.(*corev1.Pod), old.(*corev1.Pod)) },
	PrepareDoor:    func(sub string, o, old schema.Object) { podDoor(sub, o.(*corev1.Pod), old.(*corev1.Pod)) },
	OwnSchema:      true,
	ValidateCreate: func(o schema.Object) field.ErrorList { return PodErrors(o.(*corev1.Pod)) },
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		return PodUpdateErrors(o.(*corev1.Pod), old.(*corev1.Pod))
	},
	ValidateDoor: func(sub string, o, old schema.Object) field.ErrorList {
		is, was := o.(*corev1.Pod), old.(*corev1.Pod)
		switch sub {
		case "status":
			return PodStatusErrors(is, was)
		case "ephemeralcontainers":
			return EphemeralErrors(is, was)
		case "resize":
			return ResizeErrors(is, was, was.Status.QOSClass, qosOf(is))
		}
		return nil
	},
	Grace: func(o schema.Object, asked *int64) (int64, bool) {
		return podGrace(o.(*corev1.Pod), asked), true
	},
	Warnings: func(o, old schema.Object) []string {
		if old != nil { // upstream: people hardly ever update pods, and others do so all the time
			return nil
		}
		return append(NameWarnings(o, "the Pod's hostname"), PodWarnings(o.(*corev1.Pod))...)
	},
}

// PodTemplate is the judge of its kind.
var PodTemplate = &kind.Kind{
	Resource:      schema.ResourceFor[*corev1.PodTemplate](),
	OwnSchema:     true,
	PrepareCreate: func(o schema.Object) { o.SetGeneration(1) },
	PrepareUpdate: func(o, old schema.Object) {
		if !kind.SamePart(o, old, "Template") {
			o.SetGeneration(old.GetGeneration() + 1)
		}
	},
	Validate: func(o schema.Object) field.ErrorList {
		return TemplateErrors(&o.(*corev1.PodTemplate).Template, field.NewPath("template"))
	},
	Warnings: Changed(func(o schema.Object) []string {
		return TemplateWarnings(&o.(*corev1.PodTemplate).Template, field.NewPath("template"))
	}),
}

// PodEnded says whether a pod has run to its end.
func PodEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// podGrace is how many seconds a pod may take to end. One that runs nowhere has
// nothing to end.
func podGrace(pod *corev1.Pod, asked *int64) int64 {
	seconds := int64(0)
	switch {
	case pod.Spec.NodeName == "" || PodEnded(pod):
		return 0
	case asked != nil:
		seconds = *asked
	case pod.DeletionGracePeriodSeconds != nil:
		seconds = *pod.DeletionGracePeriodSeconds
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		seconds = *pod.Spec.TerminationGracePeriodSeconds
	}
	if seconds < 0 {
		return 1
	}
	return seconds
}

// SetPodCondition notes a condition, and when it turned.
func SetPodCondition(pod *corev1.Pod, c corev1.PodCondition) {
	for i := range pod.Status.Conditions {
		old := &pod.Status.Conditions[i]
		if old.Type != c.Type {
			continue
		}
		c.LastTransitionTime = old.LastTransitionTime
		if old.Status != c.Status {
			c.LastTransitionTime = valid.Now()
		}
		*old = c
		return
	}
	c.LastTransitionTime = valid.Now()
	pod.Status.Conditions = append(pod.Status.Conditions, c)
}
