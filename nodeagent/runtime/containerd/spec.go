package containerd

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/containerd/containerd/v2/pkg/oci"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/writ-os/writ/nodeagent/runtime"
)

// host is what a specification depends on besides the container itself.
type host struct {
	namespaces  []specs.LinuxNamespace
	shm         string // host directory for /dev/shm; "" makes one
	clamp       int    // lowest oom_score_adj
	users       users
	image       ocispec.ImageConfig
	devices     []specs.LinuxDevice // of the host, for privileged containers
	allCaps     []string
	cgroupPath  string
	sysctls     map[string]string
	annotations map[string]string
}

// buildSpec completes a default specification.
func buildSpec(s *oci.Spec, c runtime.Spec, h host) error {
	args, err := arguments(c, h.image)
	if err != nil {
		return err
	}
	s.Process.Args = args
	s.Process.Env = environment(c, h.image)
	s.Process.Cwd = firstOf(c.WorkingDir, h.image.WorkingDir, "/")
	s.Process.Terminal = c.TTY
	s.Process.Rlimits = nil // those of the shim, as with Kubernetes' runtimes
	s.Process.NoNewPrivileges = c.Security.NoNewPrivileges
	s.Root.Readonly = c.Security.ReadOnlyRootFS
	if s.Process.User, err = h.users.resolve(c.Security, h.image.User); err != nil {
		return err
	}
	s.Linux.Namespaces = h.namespaces
	s.Linux.CgroupsPath = h.cgroupPath
	s.Linux.Sysctl = h.sysctls
	s.Annotations = h.annotations
	capabilities(s, c.Security, h.allCaps)
	mounts(s, c, h)
	devices(s, c.Security, h.devices)
	resources(s, c.Resources, h)
	if c.Security.MaskedPathsOff || c.Security.Privileged {
		s.Linux.MaskedPaths, s.Linux.ReadonlyPaths = nil, nil
	}
	return seccompProfile(s, c.Security)
}

// arguments joins command and arguments as Kubernetes does: a command
// replaces the image's entrypoint and its arguments, arguments alone replace
// the image's arguments.
func arguments(c runtime.Spec, img ocispec.ImageConfig) ([]string, error) {
	var args []string
	switch {
	case len(c.Command) > 0:
		args = append(slices.Clone(c.Command), c.Args...)
	case len(c.Args) > 0:
		args = append(slices.Clone(img.Entrypoint), c.Args...)
	default:
		args = append(slices.Clone(img.Entrypoint), img.Cmd...)
	}
	if len(args) == 0 {
		return nil, fmt.Errorf("no command specified")
	}
	return args, nil
}

const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment gives later values of a name precedence over earlier ones, the
// container's over the image's.
func environment(c runtime.Spec, img ocispec.ImageConfig) []string {
	all := append(slices.Clone(img.Env), c.Env...)
	if c.TTY {
		all = append([]string{"TERM=xterm"}, all...)
	}
	if len(img.Env) == 0 {
		all = append([]string{defaultPath}, all...)
	}
	at := map[string]int{}
	var out []string
	for _, e := range all {
		name, _, _ := strings.Cut(e, "=")
		if i, ok := at[name]; ok {
			out[i] = e
			continue
		}
		at[name] = len(out)
		out = append(out, e)
	}
	return out
}

// capabilities gives a process the default set with the changes asked for.
// ALL stands for every capability that the agent itself may pass on.
func capabilities(s *oci.Spec, sec runtime.Security, all []string) {
	set := slices.Clone(s.Process.Capabilities.Bounding)
	switch {
	case sec.Privileged, slices.Contains(sec.AddCapabilities, "ALL"):
		set = slices.Clone(all)
	case slices.Contains(sec.DropCapabilities, "ALL"):
		set = nil
	}
	if !sec.Privileged {
		for _, c := range sec.DropCapabilities {
			set = slices.DeleteFunc(set, func(have string) bool { return have == capName(c) })
		}
		for _, c := range sec.AddCapabilities {
			if c != "ALL" && !slices.Contains(set, capName(c)) {
				set = append(set, capName(c))
			}
		}
	}
	s.Process.Capabilities = &specs.LinuxCapabilities{Bounding: set, Permitted: set, Effective: set}
}

func capName(c string) string {
	c = strings.ToUpper(c)
	if !strings.HasPrefix(c, "CAP_") {
		c = "CAP_" + c
	}
	return c
}

// mounts adds the container's mounts to the kernel file systems. One at the
// place of another replaces it.
func mounts(s *oci.Spec, c runtime.Spec, h host) {
	taken := map[string]bool{"/run": true} // a default that Kubernetes' runtimes do not have
	for _, m := range c.Mounts {
		taken[strings.TrimRight(m.ContainerPath, "/")] = true
	}
	out := slices.DeleteFunc(s.Mounts, func(m specs.Mount) bool { return taken[m.Destination] })
	ro := "ro"
	if c.Security.Privileged {
		ro = "rw"
	}
	for i := range out {
		switch {
		case out[i].Destination == "/dev/shm" && h.shm != "":
			out[i] = specs.Mount{Destination: "/dev/shm", Type: "bind", Source: h.shm, Options: []string{"rbind", "rw"}}
		case out[i].Destination == "/sys" && c.Security.Privileged:
			out[i].Options = slices.DeleteFunc(slices.Clone(out[i].Options), func(o string) bool { return o == "ro" })
		}
	}
	if !taken["/sys/fs/cgroup"] {
		out = append(out, specs.Mount{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"nosuid", "noexec", "nodev", "relatime", ro}})
	}
	binds := slices.Clone(c.Mounts)
	// A mount inside another one must come after it.
	slices.SortStableFunc(binds, func(a, b runtime.Mount) int {
		return strings.Count(strings.TrimRight(a.ContainerPath, "/"), "/") - strings.Count(strings.TrimRight(b.ContainerPath, "/"), "/")
	})
	for _, m := range binds {
		opts := []string{"rbind", "rw"}
		if m.ReadOnly {
			opts[1] = "ro"
			if m.RecursiveReadOnly {
				opts[1] = "rro"
			}
		}
		p := m.Propagation
		if p == "" {
			p = runtime.PropagationPrivate
		}
		if p != runtime.PropagationPrivate {
			s.Linux.RootfsPropagation = string(p)
		}
		out = append(out, specs.Mount{Destination: m.ContainerPath, Type: "bind", Source: m.HostPath, Options: append(opts, string(p))})
	}
	s.Mounts = out
}

func devices(s *oci.Spec, sec runtime.Security, all []specs.LinuxDevice) {
	if !sec.Privileged {
		return
	}
	s.Linux.Devices = append(s.Linux.Devices, all...)
	s.Linux.Resources.Devices = []specs.LinuxDeviceCgroup{{Allow: true, Access: "rwm"}}
}

func resources(s *oci.Spec, r runtime.Resources, h host) {
	cpu := &specs.LinuxCPU{}
	if r.CPUShares > 0 {
		cpu.Shares = &r.CPUShares
	}
	if r.CPUQuota > 0 {
		cpu.Quota, cpu.Period = &r.CPUQuota, &r.CPUPeriod
	}
	s.Linux.Resources.CPU = cpu
	if r.Memory > 0 {
		s.Linux.Resources.Memory = &specs.LinuxMemory{Limit: &r.Memory}
	}
	if r.PidsLimit > 0 {
		s.Linux.Resources.Pids = &specs.LinuxPids{Limit: &r.PidsLimit}
	}
	score := max(r.OOMScoreAdj, h.clamp)
	s.Process.OOMScoreAdj = &score
}

func seccompProfile(s *oci.Spec, sec runtime.Security) error {
	switch {
	case sec.Privileged, sec.Seccomp == "", sec.Seccomp == "Unconfined":
	case sec.Seccomp == "RuntimeDefault":
		s.Linux.Seccomp = seccomp.DefaultProfile(s)
	default:
		b, err := os.ReadFile(sec.Seccomp)
		if err != nil {
			return fmt.Errorf("read seccomp profile: %w", err)
		}
		s.Linux.Seccomp = &specs.LinuxSeccomp{}
		if err := json.Unmarshal(b, s.Linux.Seccomp); err != nil {
			return fmt.Errorf("parse seccomp profile %s: %w", sec.Seccomp, err)
		}
	}
	return nil
}

func firstOf(ss ...string) string {
	for _, s := range ss {
		if s != "" {
			return s
		}
	}
	return ""
}
