package admit

import (
	"fmt"
	"slices"
	"strings"
)

// safe are the kernel parameters that every pod may set, as upstream's list
// (pod-security-admission, check_sysctls; kubelet/sysctl/safe_sysctls.go): they
// are of the pod's namespaces and cannot harm others.
var safe = []string{
	"kernel.shm_rmid_forced",
	"net.ipv4.ip_local_port_range",
	"net.ipv4.tcp_syncookies",
	"net.ipv4.ping_group_range",
	"net.ipv4.ip_unprivileged_port_start",
	"net.ipv4.ip_local_reserved_ports",
	"net.ipv4.tcp_keepalive_time",
	"net.ipv4.tcp_fin_timeout",
	"net.ipv4.tcp_keepalive_intvl",
	"net.ipv4.tcp_keepalive_probes",
	"net.ipv4.tcp_rmem",
	"net.ipv4.tcp_wmem",
}

func sysctls(n Node, p Pod) string {
	sc := p.Spec.SecurityContext
	if sc == nil {
		return ""
	}
	for _, s := range sc.Sysctls {
		name := dots(s.Name)
		net, ipc := strings.HasPrefix(name, "net."), ofIPC(name)
		switch {
		case net && p.Spec.HostNetwork:
			return fmt.Sprintf("forbidden sysctl: %q not allowed with host net enabled", s.Name)
		case ipc && p.Spec.HostIPC:
			return fmt.Sprintf("forbidden sysctl: %q not allowed with host ipc enabled", s.Name)
		case slices.Contains(safe, name):
		case (net || ipc) && slices.ContainsFunc(n.UnsafeSysctls, func(allowed string) bool { return matches(allowed, name) }):
		default:
			return fmt.Sprintf("forbidden sysctl: %q not allowlisted", s.Name)
		}
	}
	return ""
}

// dots has a name as "net.ipv4.tcp_rmem". The name of an interface may have dots
// where slashes separate.
func dots(name string) string {
	if i := strings.IndexAny(name, "./"); i < 0 || name[i] == '.' {
		return name
	}
	return strings.NewReplacer("/", ".", ".", "/").Replace(name)
}

// ofIPC says whether a parameter is of the namespace of IPC.
func ofIPC(name string) bool {
	for _, p := range []string{"kernel.shm", "kernel.msg", "fs.mqueue."} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return name == "kernel.sem"
}

func matches(allowed, name string) bool {
	allowed = dots(allowed)
	if prefix, ok := strings.CutSuffix(allowed, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return allowed == name
}
