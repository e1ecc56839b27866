// Package admit says whether a node can give a pod what its spec asks for.
//
// It is the last guard before containers run, as the admission of the kubelet:
// what the cluster let through, or a file of the node asks for, is refused here
// when this node would run it otherwise than it says. A pod that is refused
// fails for good; its controller makes another one, for another node.
//
// Fields is the table, one row for each field that is not always honoured.
// What has no row is honoured, or has no meaning on a node. Deciding is pure:
// who calls has found out what the node can do.
package admit

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Node is what a node can do.
type Node struct {
	// Handlers of runtime classes; "" is the default and always there.
	Handlers []string
	// RecursiveReadOnly mounts can be made: Linux 5.12.
	RecursiveReadOnly bool
	// Claims of persistent volumes can be mounted.
	Claims bool
	// UnsafeSysctls may be set besides those that upstream calls safe: names, or
	// prefixes that end with "*".
	UnsafeSysctls []string
}

// Pod is a pod, with what its spec refers to.
type Pod struct {
	*corev1.Pod
	// Handler of its runtime class.
	Handler string
}

// Refusal is why a pod does not run on a node: reason and message of its
// status.
type Refusal struct{ Reason, Message string }

// Reasons, upstream's where it has one (kubelet/lifecycle, kubelet/sysctl).
const (
	ReasonField    = "UnsupportedField"
	ReasonAppArmor = "AppArmor"
	ReasonSysctl   = "SysctlForbidden"
	ReasonOS       = "PodOSNotSupported"
)

// Field is one field of a pod that a node may not be able to honour.
type Field struct {
	// Path in the pod; [] stands for every element, containers[] for those of
	// every kind.
	Path   string
	Reason string
	// Why says what is wrong; "" when nothing is. A message of another reason
	// than ReasonField stands alone, as upstream words it.
	Why func(Node, Pod) string
}

// Fields are the fields in the order in which they are looked at.
var Fields = []Field{
	{"spec.os.name", ReasonOS, func(_ Node, p Pod) string {
		if p.Spec.OS != nil && p.Spec.OS.Name != corev1.Linux {
			return "Failed to admit pod as the OS field doesn't match node OS"
		}
		return ""
	}},
	{"spec.hostUsers", ReasonField, func(_ Node, p Pod) string {
		return when(p.Spec.HostUsers != nil && !*p.Spec.HostUsers, "false: this node has no user namespaces for pods, root in the pod would be root on the node")
	}},
	{"spec.runtimeClassName", ReasonField, func(n Node, p Pod) string {
		if p.Spec.RuntimeClassName == nil || *p.Spec.RuntimeClassName == "" || slices.Contains(n.Handlers, p.Handler) {
			return ""
		}
		return fmt.Sprintf("%s: its handler %q is not on this node, which has %s", *p.Spec.RuntimeClassName, p.Handler, strings.Join(n.Handlers, ", "))
	}},
	{"spec.resourceClaims", ReasonField, func(_ Node, p Pod) string {
		return when(len(p.Spec.ResourceClaims) > 0, "this node has no drivers for dynamic resources")
	}},
	{"spec.securityContext.sysctls[]", ReasonSysctl, sysctls},
	{"spec.securityContext.seLinuxOptions.type", ReasonField, func(_ Node, p Pod) string {
		sc := p.Spec.SecurityContext
		return when(sc != nil && labelled(sc.SELinuxOptions), noSELinux)
	}},
	{"spec.containers[].securityContext.seLinuxOptions.type", ReasonField, each(func(c *corev1.Container) string {
		return when(c.SecurityContext != nil && labelled(c.SecurityContext.SELinuxOptions), noSELinux)
	})},
	{"spec.securityContext.appArmorProfile", ReasonAppArmor, func(_ Node, p Pod) string {
		sc := p.Spec.SecurityContext
		return when(sc != nil && confines(sc.AppArmorProfile) && slices.ContainsFunc(containers(p), inherits), noAppArmor)
	}},
	{"spec.containers[].securityContext.appArmorProfile", ReasonAppArmor, each(func(c *corev1.Container) string {
		return when(c.SecurityContext != nil && confines(c.SecurityContext.AppArmorProfile), noAppArmor)
	})},
	{"metadata.annotations[container.apparmor.security.beta.kubernetes.io/]", ReasonAppArmor, func(_ Node, p Pod) string {
		for k, v := range p.Annotations {
			if strings.HasPrefix(k, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix) && v != "" && v != corev1.DeprecatedAppArmorBetaProfileNameUnconfined {
				return noAppArmor
			}
		}
		return ""
	}},
	{"spec.containers[].securityContext.procMount", ReasonField, each(func(c *corev1.Container) string {
		return when(c.SecurityContext != nil && c.SecurityContext.ProcMount != nil && *c.SecurityContext.ProcMount == corev1.UnmaskedProcMount,
			"Unmasked: it needs a user namespace, and this node has none for pods")
	})},
	{"spec.containers[].volumeMounts[].recursiveReadOnly", ReasonField, recursive},
	{"spec.containers[].volumeDevices", ReasonField, each(func(c *corev1.Container) string {
		return when(len(c.VolumeDevices) > 0, "this node gives no block devices to containers")
	})},
	{"spec.containers[].restartPolicyRules[].action", ReasonField, each(func(c *corev1.Container) string {
		return when(slices.ContainsFunc(c.RestartPolicyRules, func(r corev1.ContainerRestartRule) bool {
			return r.Action != corev1.ContainerRestartRuleActionRestart
		}), "this node restarts single containers alone (Restart)")
	})},
	{"spec.volumes[]", ReasonField, volumes},
	{"spec.volumes[].emptyDir.medium", ReasonField, mediums},
	{"spec.volumes[].projected.sources[]", ReasonField, projections},
}

// labelled says whether options ask to be confined by a type. spc_t confines
// nothing; level, user and role alone ask for no more than a node without SELinux
// gives, where the kubelet passes over them, too.
func labelled(o *corev1.SELinuxOptions) bool { return o != nil && o.Type != "" && o.Type != "spc_t" }

const (
	noSELinux  = "SELinux is not enabled on this node"
	noAppArmor = "Cannot enforce AppArmor: AppArmor is not enabled on the host"
)

// Admit says why a pod does not run on a node; nil when it may.
func Admit(n Node, p Pod) *Refusal {
	for _, f := range Fields {
		why := f.Why(n, p)
		switch {
		case why == "":
		case f.Reason == ReasonField:
			return &Refusal{f.Reason, fmt.Sprintf("Pod was rejected: %s: %s", f.Path, why)}
		default:
			return &Refusal{f.Reason, "Pod was rejected: " + why}
		}
	}
	return nil
}

func when(bad bool, why string) string {
	if bad {
		return why
	}
	return ""
}

// containers are those of every kind.
func containers(p Pod) []*corev1.Container {
	var out []*corev1.Container
	for i := range p.Spec.InitContainers {
		out = append(out, &p.Spec.InitContainers[i])
	}
	for i := range p.Spec.Containers {
		out = append(out, &p.Spec.Containers[i])
	}
	return out
}

// each asks for every container and names the one.
func each(why func(*corev1.Container) string) func(Node, Pod) string {
	return func(_ Node, p Pod) string {
		for _, c := range containers(p) {
			switch w := why(c); {
			case w == noAppArmor:
				return w
			case w != "":
				return fmt.Sprintf("container %s: %s", c.Name, w)
			}
		}
		return ""
	}
}

func confines(p *corev1.AppArmorProfile) bool {
	return p != nil && p.Type != corev1.AppArmorProfileTypeUnconfined
}

// inherits says whether a container has the profile of its pod.
func inherits(c *corev1.Container) bool {
	return c.SecurityContext == nil || c.SecurityContext.AppArmorProfile == nil
}

func recursive(n Node, p Pod) string {
	if n.RecursiveReadOnly {
		return ""
	}
	return each(func(c *corev1.Container) string {
		for _, m := range c.VolumeMounts {
			if m.RecursiveReadOnly != nil && *m.RecursiveReadOnly == corev1.RecursiveReadOnlyEnabled {
				return "Enabled: this node's kernel cannot (Linux 5.12)"
			}
		}
		return ""
	})(n, p)
}
