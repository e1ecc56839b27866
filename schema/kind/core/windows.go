package core

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits of the names of Windows' users and of what says who they are.
const (
	maxCredentialSpec = 64 * 1024 // bytes
	maxUserDomain     = 256
	maxUserName       = 104
)

var (
	controlChars = regexp.MustCompile(`[[:cntrl:]]+`)
	netBIOSName  = regexp.MustCompile(`^[^\\/:\*\?"<>|\.][^\\/:\*\?"<>|]{0,14}$`)
	userDomain   = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$`)
	notInUser    = regexp.MustCompile(`["/\\:;|=,\+\*\?<>@\[\]]`)
	dotsOnly     = regexp.MustCompile(`^[\. ]+$`)
)

func (c *check) windowsOptions(w *corev1.WindowsSecurityContextOptions, at *field.Path) {
	if w == nil {
		return
	}
	if n := w.GMSACredentialSpecName; n != nil {
		c.each(at.Child("gmsaCredentialSpecName"), *n, validation.IsDNS1123Subdomain(*n))
	}
	if s := w.GMSACredentialSpec; s != nil {
		switch at := at.Child("gmsaCredentialSpec"); {
		case *s == "":
			c.invalid(at, *s, "gmsaCredentialSpec cannot be an empty string")
		case len(*s) > maxCredentialSpec:
			c.invalid(at, *s, fmt.Sprintf("gmsaCredentialSpec size must be under %d KiB", maxCredentialSpec/1024))
		}
	}
	if u := w.RunAsUserName; u != nil {
		c.windowsUser(*u, at.Child("runAsUserName"))
	}
}

func (c *check) windowsUser(name string, at *field.Path) {
	switch {
	case name == "":
		c.invalid(at, name, "runAsUserName cannot be an empty string")
		return
	case controlChars.MatchString(name):
		c.invalid(at, name, "runAsUserName cannot contain control characters")
		return
	case strings.Count(name, `\`) > 1:
		c.invalid(at, name, "runAsUserName cannot contain more than one backslash")
		return
	}
	domain, user, hasDomain := strings.Cut(name, `\`)
	if !hasDomain {
		domain, user = "", name
	}
	if len(domain) >= maxUserDomain {
		c.invalid(at, name, fmt.Sprintf("runAsUserName's Domain length must be under %d characters", maxUserDomain))
	}
	if hasDomain && !netBIOSName.MatchString(domain) && !userDomain.MatchString(domain) {
		c.invalid(at, name, "runAsUserName's Domain doesn't match the NetBios nor the DNS format")
	}
	if user == "" {
		c.invalid(at, name, "runAsUserName's User cannot be empty")
	} else if len(user) > maxUserName {
		c.invalid(at, name, fmt.Sprintf("runAsUserName's User length must not be longer than %d characters", maxUserName))
	}
	if dotsOnly.MatchString(user) {
		c.invalid(at, name, "runAsUserName's User cannot contain only periods or spaces")
	}
	if notInUser.MatchString(user) {
		c.invalid(at, name, `runAsUserName's User cannot contain the following characters: "/\:;|=,+*?<>@[]`)
	}
}

// hostProcess wants all containers to be processes of the host, or none.
func (p *pod) hostProcess(at *field.Path) {
	var whole *bool
	if sc := p.spec.SecurityContext; sc != nil && sc.WindowsOptions != nil {
		whole = sc.WindowsOptions.HostProcess
	}
	all, host := 0, 0
	visit(p.spec, at, func(ctr *corev1.Container, at *field.Path) {
		all++
		var own *bool
		if sc := ctr.SecurityContext; sc != nil && sc.WindowsOptions != nil {
			own = sc.WindowsOptions.HostProcess
		}
		if whole != nil && own != nil && *whole != *own {
			p.invalid(at.Child("securityContext", "windowsOptions", "hostProcess"), *own,
				fmt.Sprintf("pod hostProcess value must be identical if both are specified, was %v", *whole))
		}
		if own != nil && *own || own == nil && whole != nil && *whole {
			host++
		}
	})
	if host == 0 {
		return
	}
	if host != all {
		p.invalid(at, "", "If pod contains any hostProcess containers then all containers must be HostProcess containers")
	}
	if !p.spec.HostNetwork {
		p.invalid(at.Child("hostNetwork"), false, "hostNetwork must be true if pod contains any hostProcess containers")
	}
}

// os checks what the system of the nodes cannot do.
func (p *pod) os(at *field.Path) {
	if p.spec.OS == nil {
		return
	}
	switch p.spec.OS.Name {
	case corev1.Linux:
		p.linux(at)
	case corev1.Windows:
		p.windows(at)
	case "":
		p.required(at.Child("os", "name"), "")
	default:
		oneOf(&p.check, at.Child("os"), p.spec.OS.Name, corev1.Linux, corev1.Windows)
	}
}

func (p *pod) linux(at *field.Path) {
	const detail = "windows options cannot be set for a linux pod"
	if sc := p.spec.SecurityContext; sc != nil && sc.WindowsOptions != nil {
		p.forbid(at.Child("securityContext", "windowsOptions"), detail)
	}
	visit(p.spec, at, func(ctr *corev1.Container, at *field.Path) {
		if sc := ctr.SecurityContext; sc != nil && sc.WindowsOptions != nil {
			p.forbid(at.Child("securityContext", "windowsOptions"), detail)
		}
	})
}

// setField is a field and whether it is set.
type setField struct {
	at  *field.Path
	set bool
}

func (p *pod) windows(at *field.Path) {
	if sc := p.spec.SecurityContext; sc != nil {
		in := at.Child("securityContext")
		p.notOnWindows(
			setField{in.Child("appArmorProfile"), sc.AppArmorProfile != nil},
			setField{in.Child("seLinuxOptions"), sc.SELinuxOptions != nil},
			setField{at.Child("hostUsers"), p.spec.HostUsers != nil},
			setField{at.Child("hostPID"), p.spec.HostPID},
			setField{at.Child("hostIPC"), p.spec.HostIPC},
			setField{in.Child("seccompProfile"), sc.SeccompProfile != nil},
			setField{in.Child("fsGroup"), sc.FSGroup != nil},
			setField{in.Child("fsGroupChangePolicy"), sc.FSGroupChangePolicy != nil},
			setField{in.Child("sysctls"), len(sc.Sysctls) > 0},
			setField{at.Child("shareProcessNamespace"), p.spec.ShareProcessNamespace != nil},
			setField{in.Child("runAsUser"), sc.RunAsUser != nil},
			setField{in.Child("runAsGroup"), sc.RunAsGroup != nil},
			setField{in.Child("supplementalGroups"), sc.SupplementalGroups != nil},
			setField{in.Child("supplementalGroupsPolicy"), sc.SupplementalGroupsPolicy != nil},
			setField{in.Child("seLinuxChangePolicy"), sc.SELinuxChangePolicy != nil},
		)
	}
	visit(p.spec, at, func(ctr *corev1.Container, at *field.Path) {
		sc, in := ctr.SecurityContext, at.Child("securityContext")
		if sc == nil {
			return
		}
		p.notOnWindows(
			setField{in.Child("appArmorProfile"), sc.AppArmorProfile != nil},
			setField{in.Child("seLinuxOptions"), sc.SELinuxOptions != nil},
			setField{in.Child("seccompProfile"), sc.SeccompProfile != nil},
			setField{in.Child("capabilities"), sc.Capabilities != nil},
			setField{in.Child("readOnlyRootFilesystem"), sc.ReadOnlyRootFilesystem != nil},
			setField{in.Child("privileged"), sc.Privileged != nil},
			setField{in.Child("allowPrivilegeEscalation"), sc.AllowPrivilegeEscalation != nil},
			setField{in.Child("procMount"), sc.ProcMount != nil},
			setField{in.Child("runAsUser"), sc.RunAsUser != nil},
			setField{in.Child("runAsGroup"), sc.RunAsGroup != nil},
		)
	})
}

func (p *pod) notOnWindows(fields ...setField) {
	for _, f := range fields {
		if f.set {
			p.forbid(f.at, "cannot be set for a windows pod")
		}
	}
}
