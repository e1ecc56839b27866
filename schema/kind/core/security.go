package core

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (c *check) user(at *field.Path, id *int64) {
	if id != nil {
		c.each(at, *id, validation.IsValidUserID(*id))
	}
}

func (c *check) group(at *field.Path, id *int64) {
	if id != nil {
		c.each(at, *id, validation.IsValidGroupID(*id))
	}
}

// securityContext is that of a container.
func (p *pod) securityContext(sc *corev1.SecurityContext, at *field.Path) {
	if sc == nil {
		return
	}
	p.user(at.Child("runAsUser"), sc.RunAsUser)
	p.group(at.Child("runAsGroup"), sc.RunAsGroup)
	if m := sc.ProcMount; m != nil {
		oneOf(&p.check, at.Child("procMount"), *m, corev1.DefaultProcMount, corev1.UnmaskedProcMount)
		if p.hostUsers() && *m == corev1.UnmaskedProcMount {
			p.invalid(at.Child("procMount"), *m, "`hostUsers` must be false to use `Unmasked`")
		}
	}
	p.seccomp(sc.SeccompProfile, at.Child("seccompProfile"))
	if e := sc.AllowPrivilegeEscalation; e != nil && !*e {
		if sc.Privileged != nil && *sc.Privileged {
			p.invalid(at, Internal(sc), "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
		}
		if sc.Capabilities != nil {
			for _, capability := range sc.Capabilities.Add {
				if capability == "CAP_SYS_ADMIN" {
					p.invalid(at, Internal(sc), "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN")
				}
			}
		}
	}
	p.windowsOptions(sc.WindowsOptions, at.Child("windowsOptions"))
	p.appArmor(sc.AppArmorProfile, at.Child("appArmorProfile"))
}

func (c *check) seccomp(sp *corev1.SeccompProfile, at *field.Path) {
	if sp == nil {
		return
	}
	if sp.Type == "" {
		c.required(at.Child("type"), "type is required when seccompProfile is set")
	} else {
		oneOf(c, at.Child("type"), sp.Type, corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined)
	}
	profile := at.Child("localhostProfile")
	switch local := sp.Type == corev1.SeccompProfileTypeLocalhost; {
	case local && sp.LocalhostProfile == nil:
		c.required(profile, "must be set when seccomp type is Localhost")
	case local:
		c.descending(profile, *sp.LocalhostProfile)
	case sp.LocalhostProfile != nil:
		c.invalid(profile, Internal(sp), "can only be set when seccomp type is Localhost")
	}
}

// maxProfilePath is how long the name of an AppArmor profile may be, in bytes.
const maxProfilePath = 4095

func (c *check) appArmor(a *corev1.AppArmorProfile, at *field.Path) {
	if a == nil {
		return
	}
	profile := at.Child("localhostProfile")
	switch a.Type {
	case corev1.AppArmorProfileTypeLocalhost:
		if a.LocalhostProfile == nil {
			c.required(profile, "must be set when AppArmor type is Localhost")
			return
		}
		if trimmed := strings.TrimSpace(*a.LocalhostProfile); trimmed != *a.LocalhostProfile {
			c.invalid(profile, *a.LocalhostProfile, "must not be padded with whitespace")
		} else if trimmed == "" {
			c.required(profile, "must be set when AppArmor type is Localhost")
		}
		if len(*a.LocalhostProfile) > maxProfilePath {
			c.add(field.TooLong(profile, "", maxProfilePath))
		}
	case corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined:
		if a.LocalhostProfile != nil {
			c.invalid(profile, *a.LocalhostProfile, "can only be set when AppArmor type is Localhost")
		}
	case "":
		c.required(at.Child("type"), "type is required when appArmorProfile is set")
	default:
		oneOf(c, at.Child("type"), a.Type, corev1.AppArmorProfileTypeLocalhost, corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined)
	}
}

// podSecurity is the security context of the pod.
func (p *pod) podSecurity(at *field.Path) {
	sc := p.spec.SecurityContext
	if sc == nil {
		sc = &corev1.PodSecurityContext{}
	}
	p.group(at.Child("fsGroup"), sc.FSGroup)
	p.user(at.Child("runAsUser"), sc.RunAsUser)
	p.group(at.Child("runAsGroup"), sc.RunAsGroup)
	for i, id := range sc.SupplementalGroups {
		p.group(at.Child("supplementalGroups").Index(i), &id)
	}
	if s := p.spec.ShareProcessNamespace; s != nil && *s && p.spec.HostPID {
		p.invalid(at.Child("shareProcessNamespace"), *s, "ShareProcessNamespace and HostPID cannot both be enabled")
	}
	p.sysctls(sc.Sysctls, at.Child("sysctls"))
	if v := sc.FSGroupChangePolicy; v != nil {
		oneOf(&p.check, at.Child("fsGroupChangePolicy"), *v, corev1.FSGroupChangeAlways, corev1.FSGroupChangeOnRootMismatch)
	}
	p.seccomp(sc.SeccompProfile, at.Child("seccompProfile"))
	p.windowsOptions(sc.WindowsOptions, at.Child("windowsOptions"))
	p.appArmor(sc.AppArmorProfile, at.Child("appArmorProfile"))
	if v := sc.SupplementalGroupsPolicy; v != nil {
		oneOf(&p.check, at.Child("supplementalGroupsPolicy"), *v, corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicyStrict)
	}
	if v := sc.SELinuxChangePolicy; v != nil {
		oneOf(&p.check, at.Child("seLinuxChangePolicy"), *v, corev1.SELinuxChangePolicyRecursive) // the gate of the other is off by default
	}
}

const maxSysctl = 253

var sysctlName = regexp.MustCompile(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`)

func (p *pod) sysctls(list []corev1.Sysctl, at *field.Path) {
	names := sets.New[string]()
	for i, s := range list {
		at := at.Index(i).Child("name")
		switch {
		case s.Name == "":
			p.required(at, "")
		case len(s.Name) > maxSysctl || !sysctlName.MatchString(s.Name):
			p.invalid(at, s.Name, fmt.Sprintf("must have at most %d characters and match regex %s", maxSysctl, sysctlName))
		case names.Has(s.Name):
			p.add(field.Duplicate(at, s.Name))
		}
		switch space := sysctlSpace(s.Name); {
		case p.spec.HostNetwork && space == "net":
			p.invalid(at, s.Name, "may not be specified when 'hostNetwork' is true")
		case p.spec.HostIPC && space == "ipc":
			p.invalid(at, s.Name, "may not be specified when 'hostIPC' is true")
		}
		names.Insert(s.Name)
	}
}

// sysctlSpace is the kernel namespace that a sysctl belongs to.
func sysctlSpace(name string) string {
	name = strings.ReplaceAll(name, "/", ".")
	switch {
	case strings.HasPrefix(name, "net."):
		return "net"
	case name == "kernel.sem", strings.HasPrefix(name, "kernel.shm"), strings.HasPrefix(name, "kernel.msg"), strings.HasPrefix(name, "fs.mqueue."):
		return "ipc"
	}
	return ""
}

// hostNamespaces forbids a pod with users of its own the other namespaces of
// the host.
func (p *pod) hostNamespaces(at *field.Path) {
	if p.hostUsers() {
		return
	}
	const detail = "when `hostUsers` is false"
	if p.spec.HostNetwork {
		p.forbid(at.Child("hostNetwork"), detail)
	}
	if p.spec.HostPID {
		p.forbid(at.Child("HostPID"), detail)
	}
	if p.spec.HostIPC {
		p.forbid(at.Child("HostIPC"), detail)
	}
	visit(p.spec, at, func(ctr *corev1.Container, at *field.Path) {
		if len(ctr.VolumeDevices) > 0 {
			p.forbid(at.Child("volumeDevices"), detail)
		}
	})
}
