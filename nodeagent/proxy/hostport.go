package proxy

import (
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// podOwner is a pod among those who claim VIPs: no Service has such a name.
func podOwner(pod *corev1.Pod) schema.Key {
	return schema.Key{Namespace: pod.Namespace, Name: "pod/" + pod.Name}
}

// planPod says what the kernel must know of a pod of this node: its host ports.
// Callers keep their address, but for those that call 127.0.0.1.
func planPod(pod *corev1.Pod) map[VIP]*Entry {
	if pod == nil || pod.Spec.HostNetwork || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	ip, err := netip.ParseAddr(pod.Status.PodIP)
	if err != nil || !ip.Is4() {
		return nil // it has no network yet
	}
	var out map[VIP]*Entry
	for _, port := range hostPorts(pod) {
		at, ok := hostIP(port.HostIP)
		proto, known := protocols[port.Protocol]
		if !ok || !known {
			continue
		}
		if out == nil {
			out = map[VIP]*Entry{}
		}
		out[VIP{at, proto, uint16(port.HostPort)}] = &Entry{
			Endpoints: []netip.AddrPort{netip.AddrPortFrom(ip, uint16(port.ContainerPort))},
			Masq:      MasqLoopback, Hairpin: []netip.Addr{ip},
		}
	}
	return out
}

// hostPorts are the ports of the node that a pod asks for. Containers that end
// before the others start have none.
func hostPorts(pod *corev1.Pod) []corev1.ContainerPort {
	var out []corev1.ContainerPort
	add := func(c corev1.Container) {
		for _, p := range c.Ports {
			if p.HostPort > 0 && p.ContainerPort > 0 {
				out = append(out, p)
			}
		}
	}
	for _, c := range pod.Spec.InitContainers {
		if ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	for _, c := range pod.Spec.Containers {
		add(c)
	}
	return out
}

// hostIP is the address of a VIP for a hostIP: 0.0.0.0 for every address of the
// node, which is what none means, and "::" on a node of both families.
func hostIP(text string) (netip.Addr, bool) {
	if text == "" {
		return netip.IPv4Unspecified(), true
	}
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return ip, false
	}
	if ip.IsUnspecified() {
		return netip.IPv4Unspecified(), true
	}
	ip = ip.Unmap()
	return ip, ip.Is4()
}

func (p *Proxy) onPod(ev client.Event) {
	pod, ok := ev.Object.(*corev1.Pod)
	if !ok || pod.Spec.NodeName != p.cfg.NodeName {
		return
	}
	key := podOwner(pod)
	p.mu.Lock()
	defer p.mu.Unlock()
	have, known := p.pods[key]
	wants := ev.Type != client.Deleted && len(hostPorts(pod)) > 0
	switch {
	case !wants && !known:
		return
	case !wants:
		delete(p.pods, key)
	default:
		p.pods[key] = pod
		if known && have.UID == pod.UID && have.Status.PodIP == pod.Status.PodIP && have.Status.Phase == pod.Status.Phase {
			return // only these decide, and ports do not change
		}
	}
	p.touch(key)
}

// desired returns what a Service, or a pod, claims and since when.
func (p *Proxy) desired(key schema.Key) (time.Time, map[VIP]*Entry) {
	if pod := p.pods[key]; pod != nil {
		return pod.CreationTimestamp.Time, planPod(pod)
	}
	s := p.services[key]
	if s == nil {
		return time.Time{}, nil
	}
	if s.spec == nil && len(s.slices) == 0 {
		delete(p.services, key)
	}
	return s.created(), planService(s, p.cfg.NodeName)
}
