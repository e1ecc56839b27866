package v1alpha1

import (
	"path"
	"regexp"
	"strings"
)

// sysctlName is what CUE says of the names of sysctls.
var sysctlName = regexp.MustCompile(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`)

// SysctlPath is where a sysctl is below /proc/sys; "" of what is no name. Its
// parts are between dots, or between slashes: the first of either decides, and
// the other then is part of a name (net/ipv4/conf/eth0.100/rp_filter), as
// sysctl.d(5) has it.
func SysctlPath(name string) string {
	if !sysctlName.MatchString(name) {
		return ""
	}
	if i := strings.IndexAny(name, "./"); i < 0 || name[i] == '/' {
		return name
	}
	return strings.NewReplacer(".", "/", "/", ".").Replace(name)
}

// nodeSysctls are those that a node sets for itself, or that nobody may set
// from outside: patterns of path.Match, and why.
var nodeSysctls = []struct{ pattern, why string }{
	{"net/ipv4/ip_forward", ownedByRouter},
	{"net/ipv[46]/conf/*/forwarding", ownedByRouter},
	{"net/ipv4/conf/all/send_redirects", ownedByRouter},
	{"net/ipv[46]/*/writ*/*", ownedByPods},
	{"net/ipv[46]/*/wv*/*", ownedByPods},
	{"net/bridge/*", ownedByPods},
	{"kernel/hostname", ownedByConfig},
	{"kernel/domainname", ownedByConfig},
	{"kernel/panic", ownedByUpdate},
	{"kernel/panic_on_oops", ownedByUpdate},
	{"kernel/modprobe", startsPrograms},
	{"kernel/hotplug", startsPrograms},
	{"kernel/poweroff_cmd", startsPrograms},
	{"kernel/usermodehelper/*", startsPrograms},
	{"fs/binfmt_misc/*", startsPrograms},
}

const (
	ownedByRouter  = "is the node agent's to set: the node routes between its pods and others"
	ownedByPods    = "is the node agent's to set: it is of the network of pods"
	ownedByConfig  = "is what node.yaml says of the machine"
	ownedByUpdate  = "is the node's to set: a kernel that is broken must start again, so that the boot loader counts"
	startsPrograms = "would let the kernel start programs outside of containers"
)

// SysctlRefusal says why a pool may not set a sysctl, whose path is SysctlPath,
// to a value; "" when it may.
func SysctlRefusal(at, value string) string {
	for _, s := range nodeSysctls {
		if ok, err := path.Match(s.pattern, at); ok && err == nil {
			return s.why
		}
	}
	if at == "kernel/core_pattern" && strings.HasPrefix(strings.TrimSpace(value), "|") {
		return startsPrograms
	}
	return ""
}
