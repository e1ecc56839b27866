package core

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (c *check) labels(at *field.Path, labels map[string]string) {
	for _, k := range sorted(labels) {
		c.add(metav1validation.ValidateLabels(map[string]string{k: labels[k]}, at)...)
	}
}

func (c *check) selector(s *metav1.LabelSelector, at *field.Path) {
	c.add(metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, at)...)
}

func (c *check) affinity(a *corev1.Affinity, at *field.Path) {
	if a == nil {
		return
	}
	const required, preferred = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
	if n := a.NodeAffinity; n != nil {
		at := at.Child("nodeAffinity")
		if s := n.RequiredDuringSchedulingIgnoredDuringExecution; s != nil {
			c.nodeSelector(s, at.Child(required))
		}
		for i, t := range n.PreferredDuringSchedulingIgnoredDuringExecution {
			at := at.Child(preferred).Index(i)
			c.weight(t.Weight, at)
			c.nodeTerm(&t.Preference, true, at.Child("preference"))
		}
	}
	pods := func(req []corev1.PodAffinityTerm, pref []corev1.WeightedPodAffinityTerm, at *field.Path) {
		for i := range req {
			c.podTerm(&req[i], at.Child(required).Index(i))
		}
		for i := range pref {
			at := at.Child(preferred).Index(i)
			c.weight(pref[i].Weight, at)
			c.podTerm(&pref[i].PodAffinityTerm, at.Child("podAffinityTerm"))
		}
	}
	if p := a.PodAffinity; p != nil {
		pods(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, at.Child("podAffinity"))
	}
	if p := a.PodAntiAffinity; p != nil {
		pods(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, at.Child("podAntiAffinity"))
	}
}

func (c *check) weight(w int32, at *field.Path) {
	if w <= 0 || w > 100 {
		c.invalid(at.Child("weight"), w, "must be in the range 1-100")
	}
}

// NodeSelectorErrors checks which nodes something is about.
func NodeSelectorErrors(s *corev1.NodeSelector, at *field.Path) field.ErrorList {
	c := &check{}
	c.nodeSelector(s, at)
	return c.errs
}

func (c *check) nodeSelector(s *corev1.NodeSelector, at *field.Path) {
	at = at.Child("nodeSelectorTerms")
	if len(s.NodeSelectorTerms) == 0 {
		c.required(at, "must have at least one node selector term")
	}
	for i := range s.NodeSelectorTerms {
		c.nodeTerm(&s.NodeSelectorTerms[i], false, at.Index(i))
	}
}

// nodeTerm is a term about nodes. Lax: its values need not be such as labels
// have, since nothing is lost when none does.
func (c *check) nodeTerm(t *corev1.NodeSelectorTerm, lax bool, at *field.Path) {
	for i := range t.MatchExpressions {
		c.nodeLabel(&t.MatchExpressions[i], lax, at.Child("matchExpressions").Index(i))
	}
	for i := range t.MatchFields {
		c.nodeField(&t.MatchFields[i], at.Child("matchFields").Index(i))
	}
}

func (c *check) nodeLabel(r *corev1.NodeSelectorRequirement, lax bool, at *field.Path) {
	values := at.Child("values")
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) == 0 {
			c.required(values, "must be specified when `operator` is 'In' or 'NotIn'")
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			c.forbid(values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(r.Values) != 1 {
			c.required(values, "must be specified single value when `operator` is 'Lt' or 'Gt'")
		}
	default:
		c.invalid(at.Child("operator"), r.Operator, "not a valid selector operator")
	}
	c.labelKey(at.Child("key"), r.Key)
	if lax {
		return
	}
	for i, v := range r.Values {
		c.each(values.Index(i), v, validation.IsValidLabelValue(v))
	}
}

func (c *check) nodeField(r *corev1.NodeSelectorRequirement, at *field.Path) {
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) != 1 {
			c.required(at.Child("values"), "must be only one value when `operator` is 'In' or 'NotIn' for node field selector")
		}
	default:
		c.invalid(at.Child("operator"), r.Operator, "not a valid selector operator")
	}
	if r.Key != metav1.ObjectNameField {
		c.invalid(at.Child("key"), r.Key, "not a valid field selector key")
		return
	}
	for i, v := range r.Values {
		c.each(at.Child("values").Index(i), v, nameErrors(v, false))
	}
}

func (c *check) podTerm(t *corev1.PodAffinityTerm, at *field.Path) {
	c.selector(t.LabelSelector, at.Child("labelSelector"))
	c.selector(t.NamespaceSelector, at.Child("namespaceSelector"))
	for _, ns := range t.Namespaces {
		c.each(at.Child("namespace"), ns, apivalidation.ValidateNamespaceName(ns, false))
	}
	c.matchKeys(t.MatchLabelKeys, t.MismatchLabelKeys, t.LabelSelector, at)
	if t.TopologyKey == "" {
		c.required(at.Child("topologyKey"), "can not be empty")
	}
	c.labelKey(at.Child("topologyKey"), t.TopologyKey)
}

// matchKeys are keys whose values come from the pod itself. The selector has
// them already (mergeLabelKeys), so only one that stands there twice is wrong.
func (c *check) matchKeys(match, mismatch []string, s *metav1.LabelSelector, at *field.Path) {
	c.keys(match, s, at.Child("matchLabelKeys"))
	c.keys(mismatch, s, at.Child("mismatchLabelKeys"))
	if s != nil {
		have := sets.KeySet(s.MatchLabels)
		for _, e := range s.MatchExpressions {
			if i := slices.Index(match, e.Key); i >= 0 && have.Has(e.Key) {
				c.invalid(at.Index(i), e.Key, "exists in both matchLabelKeys and labelSelector")
			}
			have.Insert(e.Key)
		}
	}
	for i, k := range match {
		if slices.Contains(mismatch, k) {
			c.invalid(at.Child("matchLabelKeys").Index(i), k, "exists in both matchLabelKeys and mismatchLabelKeys")
		}
	}
}

func (c *check) keys(keys []string, s *metav1.LabelSelector, at *field.Path) {
	if len(keys) == 0 {
		return
	}
	if s == nil {
		c.forbid(at, "must not be specified when labelSelector is not set")
		return
	}
	for i, k := range keys {
		c.labelKey(at.Index(i), k)
	}
}

func (c *check) spread(list []corev1.TopologySpreadConstraint, at *field.Path) {
	for i, t := range list {
		at := at.Index(i)
		if t.MaxSkew <= 0 {
			c.invalid(at.Child("maxSkew"), t.MaxSkew, notPositive)
		}
		if t.TopologyKey == "" {
			c.required(at.Child("topologyKey"), "can not be empty")
		}
		oneOf(c, at.Child("whenUnsatisfiable"), t.WhenUnsatisfiable, corev1.DoNotSchedule, corev1.ScheduleAnyway)
		for _, other := range list[i+1:] {
			if t.TopologyKey == other.TopologyKey && t.WhenUnsatisfiable == other.WhenUnsatisfiable {
				c.add(field.Duplicate(at.Child("{topologyKey, whenUnsatisfiable}"), fmt.Sprintf("{%v, %v}", t.TopologyKey, t.WhenUnsatisfiable)))
				break
			}
		}
		if m := t.MinDomains; m != nil {
			if *m <= 0 {
				c.invalid(at.Child("minDomains"), *m, notPositive)
			}
			if t.WhenUnsatisfiable != corev1.DoNotSchedule {
				c.invalid(at.Child("minDomains"), *m, fmt.Sprintf("can only use minDomains if whenUnsatisfiable=%s, not %s", corev1.DoNotSchedule, t.WhenUnsatisfiable))
			}
		}
		if p := t.NodeAffinityPolicy; p != nil {
			oneOf(c, at.Child("nodeAffinityPolicy"), *p, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)
		}
		if p := t.NodeTaintsPolicy; p != nil {
			oneOf(c, at.Child("nodeTaintsPolicy"), *p, corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore)
		}
		c.matchKeys(t.MatchLabelKeys, nil, t.LabelSelector, at)
		c.selector(t.LabelSelector, at.Child("labelSelector"))
	}
}

func (c *check) tolerations(list []corev1.Toleration, at *field.Path) {
	for i, t := range list {
		at := at.Index(i)
		if t.Key != "" {
			c.labelKey(at.Child("key"), t.Key)
		}
		if t.Key == "" && t.Operator != corev1.TolerationOpExists {
			c.invalid(at.Child("operator"), t.Operator, "operator must be Exists when `key` is empty, which means \"match all values and all keys\"")
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			c.invalid(at.Child("effect"), t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
		}
		switch t.Operator {
		case corev1.TolerationOpEqual, "":
			if msgs := validation.IsValidLabelValue(t.Value); len(msgs) > 0 {
				c.invalid(at.Child("operator"), t.Value, strings.Join(msgs, ";"))
			}
		case corev1.TolerationOpExists:
			if t.Value != "" {
				c.invalid(at.Child("operator"), t.Value, "value must be empty when `operator` is 'Exists'")
			}
		case corev1.TolerationOpLt, corev1.TolerationOpGt: // their feature gate is off by default
			c.add(field.NotSupported(at.Child("operator"), t.Operator, []corev1.TolerationOperator{
				corev1.TolerationOpEqual, corev1.TolerationOpExists, corev1.TolerationOpLt, corev1.TolerationOpGt}))
		default:
			oneOf(c, at.Child("operator"), t.Operator, corev1.TolerationOpEqual, corev1.TolerationOpExists)
		}
		if t.Effect != "" {
			c.effect(t.Effect, at.Child("effect"))
		}
	}
}

func (c *check) effect(e corev1.TaintEffect, at *field.Path) {
	wordOf(c, at, e, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)
}

func (c *check) gates(list []corev1.PodSchedulingGate, at *field.Path) {
	seen := sets.New[string]()
	for i, g := range list {
		c.qualified(at.Index(i), g.Name)
		if seen.Has(g.Name) {
			c.add(field.Duplicate(at.Index(i), g.Name))
		}
		seen.Insert(g.Name)
	}
}
