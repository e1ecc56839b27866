package pod

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/nodeagent/runtime"
)

// DNS is how pods find names.
type DNS struct {
	Servers []string // of the cluster
	Domain  string   // default "cluster.local"
	// HostResolvConf is the node's own; default /etc/resolv.conf.
	HostResolvConf string
}

// hostname is the name that a pod gives itself.
func hostname(pod *corev1.Pod) string {
	name := pod.Name
	if pod.Spec.Hostname != "" {
		name = pod.Spec.Hostname
	}
	if pod.Spec.HostnameOverride != nil {
		name = *pod.Spec.HostnameOverride
	}
	if len(name) > 63 {
		name = strings.TrimRight(name[:63], "-.")
	}
	return name
}

// hostnameFor is the name that a pod's kernel knows: the node's in its network,
// otherwise the pod's, with its domain if it wants that (KEP-1797).
func hostnameFor(pod *corev1.Pod, node, domain string) string {
	if pod.Spec.HostNetwork && pod.Spec.HostnameOverride == nil {
		return node
	}
	return fullHostname(pod, domain)
}

func fullHostname(pod *corev1.Pod, domain string) string {
	name := hostname(pod)
	if !is(pod.Spec.SetHostnameAsFQDN) || pod.Spec.Subdomain == "" || pod.Spec.HostnameOverride != nil {
		return name
	}
	if domain == "" {
		domain = "cluster.local"
	}
	return fmt.Sprintf("%s.%s.%s.svc.%s", name, pod.Spec.Subdomain, pod.Namespace, domain)
}

// maxHostname is the longest name that the kernel takes.
const maxHostname = 64

// checkHostname refuses what the kernel would, in upstream's words.
func checkHostname(name string) error {
	if len(name) > maxHostname {
		return fmt.Errorf("hostname %q is too long. It must be at most %d characters. ", name, maxHostname)
	}
	return nil
}

// writeHosts writes the pod's /etc/hosts and /etc/resolv.conf.
func (w *worker) writeHosts(pod *corev1.Pod, ips []string) error {
	if w.p.cfg.Dir == "" {
		return nil
	}
	dir := w.p.podDir(w.uid)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	var node []byte
	if pod.Spec.HostNetwork {
		node, _ = os.ReadFile("/etc/hosts") // without one there is nothing to add to
	}
	if err := writeInPlace(filepath.Join(dir, "etc-hosts"), hostsFile(pod, ips, w.p.cfg.DNS.Domain, string(node))); err != nil {
		return err
	}
	if err := writeInPlace(filepath.Join(dir, "hostname"), hostnameFor(pod, w.p.cfg.NodeName, w.p.cfg.DNS.Domain)+"\n"); err != nil {
		return err
	}
	path := w.p.cfg.DNS.HostResolvConf
	if path == "" {
		path = "/etc/resolv.conf"
	}
	host, _ := os.ReadFile(path) // a node without resolvers has none to pass on
	return writeInPlace(filepath.Join(dir, "resolv.conf"), resolvConf(pod, w.p.cfg.DNS, string(host)))
}

// writeInPlace keeps the inode, which running containers have mounted.
func writeInPlace(path, text string) error {
	if b, err := os.ReadFile(path); err == nil && string(b) == text {
		return nil
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Chmod(path, 0o644) // past the umask
}

// hostsFile is a pod's /etc/hosts, as the kubelet writes it.
func hostsFile(pod *corev1.Pod, ips []string, domain, node string) string {
	var b strings.Builder
	if pod.Spec.HostNetwork {
		b.WriteString("# Kubernetes-managed hosts file (host network).\n" + node)
	} else {
		b.WriteString("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n" +
			"fe00::\tip6-localnet\nfe00::\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n")
		for _, ip := range ips {
			if pod.Spec.Subdomain != "" {
				fmt.Fprintf(&b, "%s\t%s.%s.%s.svc.%s\t%s\n", ip, hostname(pod), pod.Spec.Subdomain, pod.Namespace, domain, hostname(pod))
			} else {
				fmt.Fprintf(&b, "%s\t%s\n", ip, hostname(pod))
			}
		}
	}
	if len(pod.Spec.HostAliases) > 0 {
		b.WriteString("\n# Entries added by HostAliases.\n")
		for _, a := range pod.Spec.HostAliases {
			fmt.Fprintf(&b, "%s\t%s\n", a.IP, strings.Join(a.Hostnames, "\t"))
		}
	}
	return b.String()
}

// resolver is the content of a resolv.conf.
type resolver struct{ servers, searches, options []string }

func parseResolvConf(text string) resolver {
	var r resolver
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		switch f[0] {
		case "nameserver":
			r.servers = append(r.servers, f[1])
		case "search":
			r.searches = f[1:]
		case "options":
			r.options = append(r.options, f[1:]...)
		}
	}
	return r
}

// resolvConf is a pod's /etc/resolv.conf by its DNS policy.
func resolvConf(pod *corev1.Pod, d DNS, host string) string {
	domain := d.Domain
	if domain == "" {
		domain = "cluster.local"
	}
	policy := pod.Spec.DNSPolicy
	if policy == corev1.DNSClusterFirst && pod.Spec.HostNetwork || len(d.Servers) == 0 && policy != corev1.DNSNone {
		policy = corev1.DNSDefault
	}
	node := parseResolvConf(host)
	var r resolver
	switch policy {
	case corev1.DNSNone:
	case corev1.DNSDefault:
		r = node
	default:
		r = resolver{
			servers:  d.Servers,
			searches: append([]string{pod.Namespace + ".svc." + domain, "svc." + domain, domain}, node.searches...),
			options:  []string{"ndots:5"},
		}
	}
	if c := pod.Spec.DNSConfig; c != nil {
		r.servers = union(r.servers, c.Nameservers)
		r.searches = union(r.searches, c.Searches)
		r.options = mergeOptions(r.options, c.Options)
	}
	var b strings.Builder
	if len(r.searches) > 0 {
		fmt.Fprintf(&b, "search %s\n", strings.Join(r.searches, " "))
	}
	for _, s := range r.servers {
		fmt.Fprintf(&b, "nameserver %s\n", s)
	}
	if len(r.options) > 0 {
		fmt.Fprintf(&b, "options %s\n", strings.Join(r.options, " "))
	}
	return b.String()
}

func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// mergeOptions lets options of the pod replace those of the same name.
func mergeOptions(have []string, more []corev1.PodDNSConfigOption) []string {
	out := slices.Clone(have)
	for _, o := range more {
		text := o.Name
		if o.Value != nil {
			text += ":" + *o.Value
		}
		i := slices.IndexFunc(out, func(s string) bool {
			name, _, _ := strings.Cut(s, ":")
			return name == o.Name
		})
		if i >= 0 {
			out[i] = text
		} else {
			out = append(out, text)
		}
	}
	return out
}

// ownMounts are the files that every container has from the agent, where the
// pod mounts nothing else there.
func (s *starting) ownMounts(have []runtime.Mount) []runtime.Mount {
	dir := s.w.p.podDir(s.w.uid)
	var out []runtime.Mount
	for file, path := range map[string]string{"etc-hosts": "/etc/hosts", "resolv.conf": "/etc/resolv.conf", "hostname": "/etc/hostname"} {
		taken := slices.ContainsFunc(have, func(m runtime.Mount) bool { return m.ContainerPath == path })
		if !taken {
			out = append(out, runtime.Mount{HostPath: filepath.Join(dir, file), ContainerPath: path})
		}
	}
	return out
}
