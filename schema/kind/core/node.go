package core

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// NodeErrors are what is wrong with a new node, besides its metadata. (Its
// taints stand in its metadata, if one believes upstream.)
func NodeErrors(o *corev1.Node) field.ErrorList {
	c := &check{}
	c.taints(o.Spec.Taints, field.NewPath("metadata", "taints"))
	c.nodeStatus(o)
	cidrs, at := o.Spec.PodCIDRs, field.NewPath("spec", "podCIDRs")
	for i, s := range cidrs {
		c.add(validation.IsValidCIDRForLegacyField(at.Index(i), s, true, nil)...)
	}
	if len(cidrs) < 2 {
		return c.errs
	}
	dual, err := netutils.IsDualStackCIDRStrings(cidrs)
	if err != nil {
		c.add(field.InternalError(at, fmt.Errorf("invalid PodCIDRs. failed to check with dual stack with error:%w", err)))
	}
	if !dual || len(cidrs) > 2 {
		c.invalid(at, cidrs, "may specify no more than one CIDR for each IP family")
	}
	return c.errs
}

// NodeUpdateErrors are what is wrong with a change of a node: what it is cannot
// change once it is known.
func NodeUpdateErrors(o, old *corev1.Node) field.ErrorList {
	c, at := &check{}, field.NewPath("spec")
	c.nodeStatus(o)
	seen := map[corev1.NodeAddress]bool{}
	for i, a := range o.Status.Addresses {
		if seen[a] {
			c.add(field.Duplicate(field.NewPath("status", "addresses").Index(i), Internal(a)))
		}
		seen[a] = true
	}
	const keepCIDR = "node updates may not change podCIDR except from \"\" to valid"
	if len(old.Spec.PodCIDRs) > 0 && len(old.Spec.PodCIDRs) != len(o.Spec.PodCIDRs) {
		c.forbid(at.Child("podCIDRs"), keepCIDR)
	} else {
		for i, s := range old.Spec.PodCIDRs {
			if s != o.Spec.PodCIDRs[i] {
				c.forbid(at.Child("podCIDRs"), keepCIDR)
			}
		}
	}
	if old.Spec.ProviderID != "" && old.Spec.ProviderID != o.Spec.ProviderID {
		c.forbid(at.Child("providerID"), "node updates may not change providerID except from \"\" to valid")
	}
	c.taints(o.Spec.Taints, field.NewPath("metadata", "taints"))
	if o.Spec.DoNotUseExternalID != old.Spec.DoNotUseExternalID {
		c.forbid(at.Child("externalID"), "may not be updated")
	}
	return c.errs
}

func (c *check) taints(list []corev1.Taint, at *field.Path) {
	seen := sets.New[string]()
	for i, t := range list {
		at := at.Index(i)
		c.labelKey(at.Child("key"), t.Key)
		if msgs := validation.IsValidLabelValue(t.Value); len(msgs) > 0 {
			c.invalid(at.Child("value"), t.Value, strings.Join(msgs, ";"))
		}
		c.effect(t.Effect, at.Child("effect"))
		key := string(t.Effect) + "\x00" + t.Key
		if seen.Has(key) {
			err := field.Duplicate(at, Internal(t))
			err.Detail = "taints must be unique by key and effect pair"
			c.add(err)
		}
		seen.Insert(key)
	}
}

// featureName is what a node may call something that it can do.
var featureName = regexp.MustCompile(`^[A-Z][a-zA-Z0-9]*(\/[a-zA-Z][a-zA-Z0-9]*)*$`)

func (c *check) nodeStatus(o *corev1.Node) {
	status := field.NewPath("status")
	for _, n := range sorted(o.Status.Capacity) {
		c.quantity(n, o.Status.Capacity[n], status.Child("capacity", string(n)))
	}
	for _, n := range sorted(o.Status.Allocatable) {
		c.quantity(n, o.Status.Allocatable[n], status.Child("allocatable", string(n)))
	}
	list, at := o.Status.DeclaredFeatures, status.Child("declaredFeatures")
	for i, f := range list {
		switch {
		case len(f) > validation.DNS1123SubdomainMaxLength:
			c.invalid(at.Index(i), f, fmt.Sprintf("invalid feature name %q: must be no more than %d characters", f, validation.DNS1123SubdomainMaxLength))
		case !featureName.MatchString(f):
			c.invalid(at.Index(i), f, fmt.Sprintf("invalid feature name %q: must start with an UpperCamelCase segment, with subsequent segments "+
				"separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes", f))
		}
		if i+1 == len(list) {
			continue
		}
		switch next := list[i+1]; {
		case f == next:
			c.add(field.Duplicate(at.Index(i+1), next))
		case f > next:
			c.invalid(at.Index(i+1), next, "list must be sorted alphabetically")
		}
	}
}
