package core

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Annotations that named profiles before fields did.
const (
	seccompPod       = corev1.SeccompPodAnnotationKey
	seccompContainer = corev1.SeccompContainerAnnotationKeyPrefix
	appArmorBeta     = corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix
	localhostProfile = corev1.SeccompLocalhostProfileNamePrefix
)

func (c *check) profileAnnotations(a map[string]string, spec *corev1.PodSpec, at *field.Path) {
	if p, ok := a[seccompPod]; ok {
		c.seccompName(p, at.Child(seccompPod))
	}
	for _, k := range sorted(a) {
		if strings.HasPrefix(k, seccompContainer) {
			c.seccompName(a[k], at.Child(k))
		}
	}
	for _, k := range sorted(a) {
		name, ok := strings.CutPrefix(k, appArmorBeta)
		if !ok {
			continue
		}
		found := false
		visit(spec, nil, func(ctr *corev1.Container, _ *field.Path) { found = found || ctr.Name == name })
		if !found {
			c.invalid(at.Key(k), name, "container not found")
		}
		if p := a[k]; p != "" && p != corev1.DeprecatedAppArmorBetaProfileRuntimeDefault && p != corev1.DeprecatedAppArmorBetaProfileNameUnconfined &&
			!strings.HasPrefix(p, corev1.DeprecatedAppArmorBetaProfileNamePrefix) {
			c.invalid(at.Key(k), p, fmt.Sprintf("invalid AppArmor profile name: %q", p))
		}
	}
}

func (c *check) seccompName(p string, at *field.Path) {
	local, ok := strings.CutPrefix(p, localhostProfile)
	switch {
	case p == corev1.SeccompProfileRuntimeDefault, p == corev1.DeprecatedSeccompProfileDockerDefault, p == corev1.SeccompProfileNameUnconfined:
	case ok:
		c.descending(at, local)
	default:
		c.invalid(at, p, "must be a valid seccomp profile")
	}
}

// annotatedProfiles wants annotations and fields to say the same.
func (c *check) annotatedProfiles(meta *metav1.ObjectMeta, spec *corev1.PodSpec, at *field.Path) {
	if sc := spec.SecurityContext; sc != nil && sc.SeccompProfile != nil {
		if a, ok := meta.Annotations[seccompPod]; ok {
			c.seccompMatches(a, sc.SeccompProfile, at.Child("securityContext", "seccompProfile"))
		}
	}
	visit(spec, at, func(ctr *corev1.Container, at *field.Path) {
		if sc := ctr.SecurityContext; sc != nil && sc.SeccompProfile != nil {
			if a, ok := meta.Annotations[seccompContainer+ctr.Name]; ok {
				c.seccompMatches(a, sc.SeccompProfile, at.Child("securityContext", "seccompProfile"))
			}
		}
	})
	if spec.OS != nil && spec.OS.Name == corev1.Windows {
		return
	}
	visit(spec, at, func(ctr *corev1.Container, at *field.Path) {
		var profile *corev1.AppArmorProfile
		if sc := spec.SecurityContext; sc != nil {
			profile = sc.AppArmorProfile
		}
		if sc := ctr.SecurityContext; sc != nil && sc.AppArmorProfile != nil {
			profile = sc.AppArmorProfile
		}
		if a, ok := meta.Annotations[appArmorBeta+ctr.Name]; ok && profile != nil {
			c.appArmorMatches(a, profile, at.Child("securityContext", "appArmorProfile"))
		}
	})
}

func (c *check) seccompMatches(annotation string, sp *corev1.SeccompProfile, at *field.Path) {
	local, isLocal := strings.CutPrefix(annotation, localhostProfile)
	same := true
	switch sp.Type {
	case corev1.SeccompProfileTypeUnconfined:
		same = annotation == corev1.SeccompProfileNameUnconfined
	case corev1.SeccompProfileTypeRuntimeDefault:
		same = annotation == corev1.SeccompProfileRuntimeDefault || annotation == corev1.DeprecatedSeccompProfileDockerDefault
	case corev1.SeccompProfileTypeLocalhost:
		same = isLocal
		if isLocal && (sp.LocalhostProfile == nil || local != *sp.LocalhostProfile) {
			c.forbid(at.Child("localhostProfile"), "seccomp profile in annotation and field must match")
		}
	}
	if !same {
		c.forbid(at.Child("type"), "seccomp type in annotation and field must match")
	}
}

func (c *check) appArmorMatches(annotation string, p *corev1.AppArmorProfile, at *field.Path) {
	local, isLocal := strings.CutPrefix(annotation, corev1.DeprecatedAppArmorBetaProfileNamePrefix)
	same := true
	switch p.Type {
	case corev1.AppArmorProfileTypeUnconfined:
		same = annotation == corev1.DeprecatedAppArmorBetaProfileNameUnconfined
	case corev1.AppArmorProfileTypeRuntimeDefault:
		same = annotation == corev1.DeprecatedAppArmorBetaProfileRuntimeDefault
	case corev1.AppArmorProfileTypeLocalhost:
		same = isLocal
		if isLocal && (p.LocalhostProfile == nil || local != *p.LocalhostProfile) {
			c.forbid(at.Child("localhostProfile"), "apparmor profile in annotation and field must match")
		}
	}
	if !same {
		c.forbid(at.Child("type"), "apparmor type in annotation and field must match")
	}
}
