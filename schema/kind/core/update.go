package core

import (
	"fmt"
	"maps"
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const mutablePodSpec = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`," +
	"`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations)," +
	"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"

// PodUpdateErrors are what is wrong with a change of a pod, besides its
// metadata: its spec is made once, but for a few fields.
func PodUpdateErrors(o, old *corev1.Pod) field.ErrorList {
	c := &check{errs: stillErrors(podErrors(o), podErrors(old), old)}
	c.annotationUpdates(o, old)
	at := field.NewPath("spec")
	if !c.images(o.Spec.Containers, old.Spec.Containers, at.Child("containers")) ||
		!c.images(o.Spec.InitContainers, old.Spec.InitContainers, at.Child("initContainers")) ||
		!c.deadline(o.Spec.ActiveDeadlineSeconds, old.Spec.ActiveDeadlineSeconds, at.Child("activeDeadlineSeconds")) {
		return c.errs
	}
	c.keptTolerations(o.Spec.Tolerations, old.Spec.Tolerations, at.Child("tolerations"))
	c.goneGates(o.Spec.SchedulingGates, old.Spec.SchedulingGates, at.Child("schedulingGates"))
	rest := o.Spec.DeepCopy()
	for i := range rest.Containers {
		rest.Containers[i].Image = old.Spec.Containers[i].Image
	}
	for i := range rest.InitContainers {
		rest.InitContainers[i].Image = old.Spec.InitContainers[i].Image
	}
	rest.ActiveDeadlineSeconds = old.Spec.ActiveDeadlineSeconds
	rest.SchedulingGates = old.Spec.SchedulingGates
	rest.Tolerations = old.Spec.Tolerations
	if was, is := old.Spec.TerminationGracePeriodSeconds, rest.TerminationGracePeriodSeconds; was != nil && *was < 0 && is != nil && *is == 1 {
		rest.TerminationGracePeriodSeconds = was
	}
	if len(old.Spec.SchedulingGates) > 0 {
		c.gated(rest, &old.Spec, at)
	}
	// The old name of the account is no field of upstream's internal form.
	rest.DeprecatedServiceAccount = old.Spec.DeprecatedServiceAccount
	if !apiequality.Semantic.DeepEqual(*rest, old.Spec) {
		c.forbid(at, fmt.Sprintf("%s\n%s", mutablePodSpec, Diff(old.Spec, *rest)))
	}
	return c.errs
}

// stillErrors drops what was wrong before already: a pod that was let in under
// other rules can still be changed, and must be able to end.
func stillErrors(is, was field.ErrorList, old *corev1.Pod) field.ErrorList {
	if len(is) == 0 || len(was) == 0 || old.ResourceVersion == "" {
		return is
	}
	known := map[string]bool{}
	for _, e := range was {
		known[e.Error()] = true
	}
	var out field.ErrorList
	for _, e := range is {
		if !known[e.Error()] {
			out = append(out, e)
		}
	}
	return out
}

func (c *check) annotationUpdates(o, old *corev1.Pod) {
	at := field.NewPath("metadata", "annotations")
	for _, k := range sorted(old.Annotations) {
		if v, ok := o.Annotations[k]; ok && v == old.Annotations[k] {
			continue
		}
		if strings.HasPrefix(k, appArmorBeta) {
			c.forbid(at.Key(k), "may not remove or update AppArmor annotations")
		}
		if k == corev1.MirrorPodAnnotationKey {
			c.forbid(at.Key(k), "may not remove or update mirror pod annotation")
		}
	}
	for _, k := range sorted(o.Annotations) {
		if _, ok := old.Annotations[k]; ok {
			continue
		}
		if strings.HasPrefix(k, appArmorBeta) {
			c.forbid(at.Key(k), "may not add AppArmor annotations")
		}
		if k == corev1.MirrorPodAnnotationKey {
			c.forbid(at.Key(k), "may not add mirror pod annotation")
		}
	}
}

// images checks the containers of a change, and says whether they can be
// compared.
func (c *check) images(is, was []corev1.Container, at *field.Path) bool {
	if len(is) != len(was) {
		c.forbid(at, "pod updates may not add or remove containers")
		return false
	}
	for i := range is {
		c.nonEmpty(at.Index(i).Child("image"), is[i].Image)
		c.image(&is[i], at.Index(i))
	}
	return true
}

// deadline may come nearer, and says whether what is left is worth checking.
func (c *check) deadline(is, was *int64, at *field.Path) bool {
	switch {
	case is == nil && was != nil:
		c.invalid(at, nil, "must not update from a positive integer to nil value")
	case is == nil:
	case *is < 0 || *is > math.MaxInt32:
		c.invalid(at, *is, validation.InclusiveRangeError(0, math.MaxInt32))
		return false
	case was != nil && *was < *is:
		c.invalid(at, *is, "must be less than or equal to previous value")
		return false
	}
	return true
}

func (c *check) keptTolerations(is, was []corev1.Toleration, at *field.Path) {
	for _, old := range was {
		old.TolerationSeconds = nil
		kept := false
		for _, t := range is {
			t.TolerationSeconds = nil
			kept = kept || apiequality.Semantic.DeepEqual(old, t)
		}
		if !kept {
			c.forbid(at, "existing toleration can not be modified except its tolerationSeconds")
			return
		}
	}
	c.tolerations(is, at)
}

func (c *check) goneGates(is, was []corev1.PodSchedulingGate, at *field.Path) {
	old := map[corev1.PodSchedulingGate]bool{}
	for _, g := range was {
		old[g] = true
	}
	for i, g := range is {
		if !old[g] {
			c.forbid(at.Index(i).Child("name"), fmt.Sprintf("only deletion is allowed, but found new scheduling gate '%s'", g.Name))
		}
	}
}

// gated lets the scheduling directives of a pod that is not scheduled yet grow
// tighter (KEP-3838). What it lets through it restores in rest.
func (c *check) gated(rest, old *corev1.PodSpec, at *field.Path) {
	if !maps.Equal(rest.NodeSelector, old.NodeSelector) {
		for k, v := range old.NodeSelector {
			if now, ok := rest.NodeSelector[k]; !ok || now != v {
				c.invalid(at.Child("nodeSelector"), rest.NodeSelector, "only additions to spec.nodeSelector are allowed (no mutations or deletions)")
				break
			}
		}
		rest.NodeSelector = old.NodeSelector
	}
	var is, was *corev1.NodeAffinity
	if rest.Affinity != nil {
		is = rest.Affinity.NodeAffinity
	}
	if old.Affinity != nil {
		was = old.Affinity.NodeAffinity
	}
	if apiequality.Semantic.DeepEqual(is, was) {
		return
	}
	c.tighter(is, was, at.Child("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"))
	switch {
	case rest.Affinity == nil && was != nil:
		rest.Affinity = &corev1.Affinity{NodeAffinity: was}
	case rest.Affinity != nil && old.Affinity == nil && rest.Affinity.PodAffinity == nil && rest.Affinity.PodAntiAffinity == nil:
		rest.Affinity = nil
	case rest.Affinity != nil:
		rest.Affinity.NodeAffinity = was
	}
}

func (c *check) tighter(is, was *corev1.NodeAffinity, at *field.Path) {
	if was == nil || was.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return
	}
	old := was.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	var terms []corev1.NodeSelectorTerm
	if is != nil && is.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		terms = is.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	}
	if len(old) > 0 && len(old) != len(terms) {
		c.invalid(at, Internal(terms), "no additions/deletions to non-empty NodeSelectorTerms list are allowed")
		return
	}
	for i := range old {
		if !startsWith(terms[i].MatchExpressions, old[i].MatchExpressions) || !startsWith(terms[i].MatchFields, old[i].MatchFields) ||
			len(old[i].MatchExpressions)+len(old[i].MatchFields) == 0 && len(terms[i].MatchExpressions)+len(terms[i].MatchFields) > 0 {
			c.invalid(at.Index(i), Internal(terms[i]), "only additions are allowed (no mutations or deletions)")
		}
	}
}

func startsWith(is, was []corev1.NodeSelectorRequirement) bool {
	return len(is) >= len(was) && (len(was) == 0 || apiequality.Semantic.DeepEqual(is[:len(was)], was))
}
