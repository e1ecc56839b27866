package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/writ-os/writ/schema/kind/valid"
)

// ClusterIPErrors checks the addresses of a Service and their families, each for
// itself and against each other.
func ClusterIPErrors(s, old *corev1.Service) field.ErrorList {
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	at := field.NewPath("spec")
	ips, families := s.Spec.ClusterIPs, s.Spec.IPFamilies
	ipsAt, famAt := at.Child("clusterIPs"), at.Child("ipFamilies")
	var errs field.ErrorList
	switch {
	case s.Spec.ClusterIP != "" && len(ips) == 0:
		errs = append(errs, field.Required(ipsAt, ""))
	case s.Spec.ClusterIP != "" && ips[0] != s.Spec.ClusterIP:
		errs = append(errs, field.Invalid(ipsAt, ips, "first value must match `clusterIP`"))
	case s.Spec.ClusterIP == "" && len(ips) > 0:
		errs = append(errs, field.Invalid(ipsAt, ips, "must be empty when `clusterIP` is not specified"))
	}
	seen := map[corev1.IPFamily]bool{}
	for i := range families {
		errs = append(errs, valid.OneOf(&families[i], famAt.Index(i), "IPv4", "IPv6")...)
		if seen[families[i]] {
			errs = append(errs, field.Duplicate(famAt.Index(i), families[i]))
		}
		seen[families[i]] = true
	}
	errs = append(errs, valid.OneOf(s.Spec.IPFamilyPolicy, at.Child("ipFamilyPolicy"), "PreferDualStack", "RequireDualStack", "SingleStack")...)
	var had []string
	if old != nil {
		had = old.Spec.ClusterIPs
	}
	bad := false
	for i, ip := range ips {
		if i == 0 && ip == corev1.ClusterIPNone {
			if len(ips) > 1 {
				bad = true
				errs = append(errs, field.Invalid(ipsAt, ips, "'None' must be the first and only value"))
			}
			continue
		}
		wrong := validation.IsValidIPForLegacyField(ipsAt.Index(i), ip, false, had)
		bad = bad || len(wrong) > 0
		errs = append(errs, wrong...)
	}
	if len(ips) > 2 {
		errs = append(errs, field.Invalid(ipsAt, ips, "may only hold up to 2 values"))
	}
	if bad {
		return errs
	}
	if len(ips) > 1 {
		if both, err := netutils.IsDualStackIPStrings(ips); err == nil && !both {
			errs = append(errs, field.Invalid(ipsAt, ips, "may specify no more than one IP for each IP family"))
		}
	}
	if Headless(s) {
		return errs
	}
	for i := range min(len(ips), len(families)) {
		want, six := families[i], netutils.IsIPv6String(ips[i])
		if want == corev1.IPv4Protocol && six || want == corev1.IPv6Protocol && !six {
			errs = append(errs, field.Invalid(ipsAt.Index(i), ips[i], fmt.Sprintf("expected an %s value as indicated by `ipFamilies[%v]`", want, i)))
		}
	}
	return errs
}

// serviceUpdateErrors: the address of a Service is what others hold on to.
func serviceUpdateErrors(s, old *corev1.Service) field.ErrorList {
	var errs field.ErrorList
	if s.Spec.Type != corev1.ServiceTypeExternalName && old.Spec.Type != corev1.ServiceTypeExternalName {
		errs = append(addressUpdateErrors(s, old), familyUpdateErrors(s, old)...)
	}
	errs = append(errs, balancerClassErrors(s, old)...)
	if NeedsHealthPort(old) && NeedsHealthPort(s) && s.Spec.HealthCheckNodePort != old.Spec.HealthCheckNodePort {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "healthCheckNodePort"), "field is immutable"))
	}
	return errs
}

const mayNotChange = "may not change once set"

func addressUpdateErrors(s, old *corev1.Service) field.ErrorList {
	if Headless(s) && Headless(old) {
		return nil
	}
	at := field.NewPath("spec")
	is, was := s.Spec.ClusterIPs, old.Spec.ClusterIPs
	var errs field.ErrorList
	switch {
	case len(was) == len(is):
		for i := range was {
			if is[i] != was[i] {
				errs = append(errs, field.Invalid(at.Child("clusterIPs").Index(i), is, mayNotChange))
			}
		}
		return errs
	case len(is) == 0:
		return append(errs, field.Invalid(at.Child("clusterIPs").Index(0), is, "primary clusterIP can not be unset"))
	}
	if len(was) > 0 && is[0] != was[0] {
		errs = append(errs, field.Invalid(at.Child("clusterIPs").Index(0), is, mayNotChange))
	}
	if len(was) > len(is) && len(is) == 1 && valid.Deref(s.Spec.IPFamilyPolicy) != corev1.IPFamilyPolicySingleStack {
		errs = append(errs, field.Invalid(at.Child("ipFamilyPolicy"), s.Spec.IPFamilyPolicy, "must be set to 'SingleStack' when releasing the secondary clusterIP"))
	}
	return errs
}

func familyUpdateErrors(s, old *corev1.Service) field.ErrorList {
	if Headless(s) || Headless(old) { // it may change its families
		return nil
	}
	at := field.NewPath("spec")
	is, was := s.Spec.IPFamilies, old.Spec.IPFamilies
	var errs field.ErrorList
	if len(was) == len(is) {
		for i := range was {
			if is[i] != was[i] {
				errs = append(errs, field.Invalid(at.Child("ipFamilies").Index(0), is, mayNotChange))
			}
		}
		return errs
	}
	fewer := len(was) > len(is)
	if fewer && len(s.Spec.ClusterIPs) == 0 {
		errs = append(errs, field.Invalid(at.Child("ipFamilies").Index(0), is, "primary ipFamily can not be unset"))
	}
	if len(is) > 0 && len(was) > 0 && is[0] != was[0] {
		errs = append(errs, field.Invalid(at.Child("ipFamilies").Index(0), s.Spec.ClusterIPs, mayNotChange))
	}
	if fewer && len(is) == 1 && valid.Deref(s.Spec.IPFamilyPolicy) != corev1.IPFamilyPolicySingleStack {
		errs = append(errs, field.Invalid(at.Child("ipFamilyPolicy"), s.Spec.IPFamilyPolicy, "must be set to 'SingleStack' when releasing the secondary ipFamily"))
	}
	return errs
}
