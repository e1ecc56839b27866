package registry

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
)

func podRules(rules map[*schema.Resource]*rule) {
	rules[schema.ResourceFor[*corev1.Pod]()] = &rule{
		generation: true,
		create: func(o schema.Object) {
			pod := o.(*corev1.Pod)
			pod.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: qosOf(pod)}
			if len(pod.Spec.SchedulingGates) > 0 {
				setPodCondition(pod, corev1.PodCondition{
					Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated,
					Message: "Scheduling is blocked due to non-empty scheduling gates",
				})
			}
		},
		status: func(o, old schema.Object) {
			pod, was := o.(*corev1.Pod), old.(*corev1.Pod)
			pod.OwnerReferences = was.OwnerReferences
			pod.DeletionTimestamp = was.DeletionTimestamp
			if pod.Status.QOSClass == "" {
				pod.Status.QOSClass = was.Status.QOSClass
			}
		},
		door: func(sub string, o, old schema.Object) {
			pod, was := o.(*corev1.Pod), old.(*corev1.Pod)
			spec := was.Spec.DeepCopy()
			switch sub {
			case "ephemeralcontainers":
				spec.EphemeralContainers = pod.Spec.EphemeralContainers
			case "resize":
				resize(spec.Containers, pod.Spec.Containers)
			}
			pod.Spec = *spec
		},
		validate: func(o schema.Object) field.ErrorList {
			return podSpecErrors(&o.(*corev1.Pod).Spec, field.NewPath("spec"))
		},
		validateUpdate: func(o, old schema.Object) field.ErrorList {
			return podUpdateErrors(o.(*corev1.Pod), old.(*corev1.Pod))
		},
		grace: func(o schema.Object, asked *int64) (int64, bool) {
			return podGrace(o.(*corev1.Pod), asked), true
		},
	}
}

// resize takes over the resources of containers of the same name.
func resize(containers, from []corev1.Container) {
	for i := range containers {
		for _, c := range from {
			if c.Name == containers[i].Name {
				containers[i].Resources = c.Resources
			}
		}
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
	if c.Status == corev1.ConditionTrue {
		c.LastTransitionTime = now()
	}
	pod.Status.Conditions = append(pod.Status.Conditions, c)
}

// podSpecErrors are rules across fields that a definition of the kind does not
// say.
func podSpecErrors(spec *corev1.PodSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(spec.Containers) == 0 {
		errs = append(errs, field.Required(at.Child("containers"), ""))
	}
	names := map[string]bool{}
	volumes := map[string]bool{}
	for i, v := range spec.Volumes {
		if volumes[v.Name] {
			errs = append(errs, field.Duplicate(at.Child("volumes").Index(i).Child("name"), v.Name))
		}
		volumes[v.Name] = true
	}
	check := func(list []corev1.Container, at *field.Path) {
		for i, c := range list {
			at := at.Index(i)
			if names[c.Name] {
				errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
			}
			names[c.Name] = true
			errs = append(errs, containerErrors(&c, volumes, at)...)
		}
	}
	check(spec.InitContainers, at.Child("initContainers"))
	check(spec.Containers, at.Child("containers"))
	return errs
}

func containerErrors(c *corev1.Container, volumes map[string]bool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, m := range c.VolumeMounts {
		if !volumes[m.Name] {
			errs = append(errs, field.NotFound(at.Child("volumeMounts").Index(i).Child("name"), m.Name))
		}
	}
	for name, limit := range c.Resources.Limits {
		if request, ok := c.Resources.Requests[name]; ok && request.Cmp(limit) > 0 {
			errs = append(errs, field.Invalid(at.Child("resources", "requests"), request.String(),
				"must be less than or equal to "+string(name)+" limit of "+limit.String()))
		}
	}
	ports := map[string]bool{}
	for i, p := range c.Ports {
		if p.Name != "" && ports[p.Name] {
			errs = append(errs, field.Duplicate(at.Child("ports").Index(i).Child("name"), p.Name))
		}
		ports[p.Name] = true
	}
	return errs
}

const mutablePodSpec = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`," +
	"`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations)," +
	"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"

// podUpdateErrors lets through the few changes that a pod's spec may undergo.
func podUpdateErrors(pod, old *corev1.Pod) field.ErrorList {
	if apiequality.Semantic.DeepEqual(pod.Spec, old.Spec) {
		return nil
	}
	at := field.NewPath("spec")
	if len(pod.Spec.Containers) != len(old.Spec.Containers) {
		return field.ErrorList{field.Forbidden(at.Child("containers"), "pod updates may not add or remove containers")}
	}
	if len(pod.Spec.InitContainers) != len(old.Spec.InitContainers) {
		return field.ErrorList{field.Forbidden(at.Child("initContainers"), "pod updates may not add or remove containers")}
	}
	errs := deadlineErrors(pod.Spec.ActiveDeadlineSeconds, old.Spec.ActiveDeadlineSeconds, at.Child("activeDeadlineSeconds"))
	errs = append(errs, tolerationErrors(pod.Spec.Tolerations, old.Spec.Tolerations, at.Child("tolerations"))...)
	errs = append(errs, gateErrors(pod.Spec.SchedulingGates, old.Spec.SchedulingGates, at.Child("schedulingGates"))...)

	rest := pod.Spec.DeepCopy()
	for i := range rest.Containers {
		rest.Containers[i].Image = old.Spec.Containers[i].Image
	}
	for i := range rest.InitContainers {
		rest.InitContainers[i].Image = old.Spec.InitContainers[i].Image
	}
	rest.ActiveDeadlineSeconds = old.Spec.ActiveDeadlineSeconds
	rest.Tolerations = old.Spec.Tolerations
	rest.SchedulingGates = old.Spec.SchedulingGates
	if was, is := old.Spec.TerminationGracePeriodSeconds, rest.TerminationGracePeriodSeconds; was != nil && *was < 0 && is != nil && *is == 1 {
		rest.TerminationGracePeriodSeconds = was
	}
	if !apiequality.Semantic.DeepEqual(*rest, old.Spec) {
		errs = append(errs, field.Forbidden(at, mutablePodSpec))
	}
	return errs
}

func deadlineErrors(is, was *int64, at *field.Path) field.ErrorList {
	switch {
	case is == nil && was == nil:
		return nil
	case is == nil:
		return field.ErrorList{field.Invalid(at, is, "must not update from a positive integer to nil value")}
	case *is < 0 || *is > math.MaxInt32:
		return field.ErrorList{field.Invalid(at, *is, "must be between 0 and 2147483647, inclusive")}
	case was != nil && *was < *is:
		return field.ErrorList{field.Invalid(at, *is, "must be less than or equal to previous value")}
	}
	return nil
}

func tolerationErrors(is, was []corev1.Toleration, at *field.Path) field.ErrorList {
	for _, old := range was {
		old.TolerationSeconds = nil
		kept := false
		for _, t := range is {
			t.TolerationSeconds = nil
			kept = kept || apiequality.Semantic.DeepEqual(old, t)
		}
		if !kept {
			return field.ErrorList{field.Forbidden(at, "existing toleration can not be modified except its tolerationSeconds")}
		}
	}
	return nil
}

func gateErrors(is, was []corev1.PodSchedulingGate, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	old := map[corev1.PodSchedulingGate]bool{}
	for _, g := range was {
		old[g] = true
	}
	for i, g := range is {
		if !old[g] {
			errs = append(errs, field.Forbidden(at.Index(i).Child("name"), "only deletion is allowed, but found new scheduling gate '"+g.Name+"'"))
		}
	}
	return errs
}
