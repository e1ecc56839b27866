package pod

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/nodeagent/image"
	"github.com/writ-os/writ/nodeagent/runtime"
)

// security is that of a container on this node: one that names no seccomp
// profile has the runtime's own, which a privileged one never has.
func (p *Pods) security(pod *corev1.Pod, c *corev1.Container, img image.Image) (runtime.Security, error) {
	s, err := securityOf(pod, c, img)
	if s.Seccomp == "" && !p.cfg.NoSeccompDefault {
		s.Seccomp = "RuntimeDefault"
	}
	return s, err
}

// securityOf joins the security contexts of a pod and a container; the
// container's fields win.
func securityOf(pod *corev1.Pod, c *corev1.Container, img image.Image) (runtime.Security, error) {
	p, sc := pod.Spec.SecurityContext, c.SecurityContext
	if p == nil {
		p = &corev1.PodSecurityContext{}
	}
	if sc == nil {
		sc = &corev1.SecurityContext{}
	}
	s := runtime.Security{
		User: or(sc.RunAsUser, p.RunAsUser), Group: or(sc.RunAsGroup, p.RunAsGroup),
		RunAsNonRoot:       is(or(sc.RunAsNonRoot, p.RunAsNonRoot)),
		Privileged:         is(sc.Privileged),
		ReadOnlyRootFS:     is(sc.ReadOnlyRootFilesystem),
		NoNewPrivileges:    sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation,
		SupplementalGroups: slices.Clone(p.SupplementalGroups),
		Seccomp:            seccompOf(or(sc.SeccompProfile, p.SeccompProfile)),
		StrictGroups:       p.SupplementalGroupsPolicy != nil && *p.SupplementalGroupsPolicy == corev1.SupplementalGroupsPolicyStrict,
		MaskedPathsOff:     sc.ProcMount != nil && *sc.ProcMount == corev1.UnmaskedProcMount,
	}
	if p.FSGroup != nil && !slices.Contains(s.SupplementalGroups, *p.FSGroup) {
		s.SupplementalGroups = append(s.SupplementalGroups, *p.FSGroup)
	}
	if sc.Capabilities != nil {
		for _, a := range sc.Capabilities.Add {
			s.AddCapabilities = append(s.AddCapabilities, string(a))
		}
		for _, d := range sc.Capabilities.Drop {
			s.DropCapabilities = append(s.DropCapabilities, string(d))
		}
	}
	return s, checkNonRoot(pod, c, s, img)
}

func or[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

func is(b *bool) bool { return b != nil && *b }

// checkNonRoot refuses what may run as root though it must not.
func checkNonRoot(pod *corev1.Pod, c *corev1.Container, s runtime.Security, img image.Image) error {
	if !s.RunAsNonRoot {
		return nil
	}
	who := fmt.Sprintf("(pod: %q, container: %s)", format(pod), c.Name)
	if s.User != nil {
		if *s.User == 0 {
			return fmt.Errorf("container's runAsUser breaks non-root policy %s", who)
		}
		return nil
	}
	user, _, _ := strings.Cut(img.User, ":")
	uid, err := strconv.ParseInt(user, 10, 64)
	switch {
	case user == "" || (err == nil && uid == 0):
		return fmt.Errorf("container has runAsNonRoot and image will run as root %s", who)
	case err != nil:
		return fmt.Errorf("container has runAsNonRoot and image has non-numeric user (%s), cannot verify user is non-root %s", user, who)
	}
	return nil
}

func seccompOf(p *corev1.SeccompProfile) string {
	if p == nil {
		return ""
	}
	switch p.Type {
	case corev1.SeccompProfileTypeRuntimeDefault:
		return "RuntimeDefault"
	case corev1.SeccompProfileTypeLocalhost:
		if p.LocalhostProfile != nil {
			return "/var/lib/kubelet/seccomp/" + *p.LocalhostProfile
		}
	}
	return "Unconfined"
}
