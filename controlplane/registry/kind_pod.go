package registry

import (
	corev1 "k8s.io/api/core/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/core"
)

func podRules(rules map[*schema.Resource]*rule) {
	rules[schema.ResourceFor[*corev1.Pod]()] = &rule{
		generation: true,
		normal:     func(o schema.Object) { podNormal(o.(*corev1.Pod)) },
		create: func(o schema.Object) {
			pod := o.(*corev1.Pod)
			pod.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: qosOf(pod)}
			mergeLabelKeys(pod)
			if len(pod.Spec.SchedulingGates) > 0 {
				setPodCondition(pod, corev1.PodCondition{
					Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated,
					Message: "Scheduling is blocked due to non-empty scheduling gates",
				})
			}
		},
		status:      func(o, old schema.Object) { podStatus(o.(*corev1.Pod), old.(*corev1.Pod)) },
		door:        func(sub string, o, old schema.Object) { podDoor(sub, o.(*corev1.Pod), old.(*corev1.Pod)) },
		ownSchema:   true,
		validateNew: func(o schema.Object) field.ErrorList { return core.PodErrors(o.(*corev1.Pod)) },
		validateUpdate: func(o, old schema.Object) field.ErrorList {
			return core.PodUpdateErrors(o.(*corev1.Pod), old.(*corev1.Pod))
		},
		validateDoor: func(sub string, o, old schema.Object) field.ErrorList {
			is, was := o.(*corev1.Pod), old.(*corev1.Pod)
			switch sub {
			case "status":
				return core.PodStatusErrors(is, was)
			case "ephemeralcontainers":
				return core.EphemeralErrors(is, was)
			case "resize":
				return core.ResizeErrors(is, was, was.Status.QOSClass, qosOf(is))
			}
			return nil
		},
		grace: func(o schema.Object, asked *int64) (int64, bool) {
			return podGrace(o.(*corev1.Pod), asked), true
		},
	}
}

// podTemplateRule is that of templates which stand alone.
func podTemplateRule() *rule {
	return &rule{
		ownSchema: true,
		create:    func(o schema.Object) { o.SetGeneration(1) },
		update: func(o, old schema.Object) {
			if !samePart(o, old, "Template") {
				o.SetGeneration(old.GetGeneration() + 1)
			}
		},
		validate: func(o schema.Object) field.ErrorList {
			return core.TemplateErrors(&o.(*corev1.PodTemplate).Template, field.NewPath("template"))
		},
	}
}

func podBinding(r *schema.Resource) kschema.GroupResource {
	return kschema.GroupResource{Group: r.Group, Resource: r.Plural + "/binding"}
}

func podEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// podGrace is how many seconds a pod may take to end. One that runs nowhere has
// nothing to end.
func podGrace(pod *corev1.Pod, asked *int64) int64 {
	seconds := int64(0)
	switch {
	case pod.Spec.NodeName == "" || podEnded(pod):
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

func setPodCondition(pod *corev1.Pod, c corev1.PodCondition) {
	for i := range pod.Status.Conditions {
		old := &pod.Status.Conditions[i]
		if old.Type != c.Type {
			continue
		}
		c.LastTransitionTime = old.LastTransitionTime
		if old.Status != c.Status {
			c.LastTransitionTime = now()
		}
		*old = c
		return
	}
	c.LastTransitionTime = now()
	pod.Status.Conditions = append(pod.Status.Conditions, c)
}
