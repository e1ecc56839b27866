package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// hosted is a pod of the node with host ports, in words: "8081", "udp 8081",
// "127.0.0.1 8081".
func hosted(name, ip string, ports ...string) *corev1.Pod {
	pod := schema.ResourceFor[*corev1.Pod]().New().(*corev1.Pod)
	pod.Namespace, pod.Name = "shop", name
	pod.Spec.NodeName = "a"
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip}
	c := corev1.Container{Name: "c"}
	for _, text := range ports {
		p := corev1.ContainerPort{ContainerPort: 8080, Protocol: corev1.ProtocolTCP}
		for _, word := range strings.Fields(text) {
			switch n, err := strconv.Atoi(word); {
			case err == nil:
				p.HostPort = int32(n)
			case word == "udp":
				p.Protocol = corev1.ProtocolUDP
			default:
				p.HostIP = word
			}
		}
		c.Ports = append(c.Ports, p)
	}
	pod.Spec.Containers = []corev1.Container{c}
	return pod
}

func TestPlanPod(t *testing.T) {
	with := func(change func(*corev1.Pod)) *corev1.Pod {
		pod := hosted("p", "10.244.0.9", "8081")
		change(pod)
		return pod
	}
	for _, tt := range []struct {
		name string
		pod  *corev1.Pod
		want string
	}{
		{"one", hosted("p", "10.244.0.9", "8081"), "0.0.0.0 6 8081"},
		{"protocol", hosted("p", "10.244.0.9", "udp 53"), "0.0.0.0 17 53"},
		{"address", hosted("p", "10.244.0.9", "127.0.0.1 8081"), "127.0.0.1 6 8081"},
		{"every address", hosted("p", "10.244.0.9", ":: 8081"), "0.0.0.0 6 8081"},
		{"another family", hosted("p", "10.244.0.9", "fd00::1 8081"), ""},
		{"no port of the node", with(func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].HostPort = 0 }), ""},
		{"no network yet", hosted("p", "", "8081"), ""},
		{"network of the node", with(func(p *corev1.Pod) { p.Spec.HostNetwork = true }), ""},
		{"ended", with(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), ""},
		{"sidecar", with(func(p *corev1.Pod) {
			p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers, nil
			p.Spec.InitContainers[0].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}), "0.0.0.0 6 8081"},
		{"container that ends first", with(func(p *corev1.Pod) { p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers, nil }), ""},
	} {
		var got []string
		for vip, e := range planPod(tt.pod) {
			got = append(got, fmt.Sprint(vip.Addr, vip.Proto, vip.Port))
			if len(e.Endpoints) != 1 || e.Endpoints[0].String() != "10.244.0.9:8080" {
				t.Errorf("%s: leads to %v", tt.name, e.Endpoints)
			}
		}
		if g := strings.Join(got, ", "); strings.ReplaceAll(g, " ", "") != strings.ReplaceAll(tt.want, " ", "") {
			t.Errorf("%s: %q, want %q", tt.name, g, tt.want)
		}
	}
}

func (b *bed) answers(from, network, addr, want string) {
	b.t.Helper()
	eventually(b.t, fmt.Sprintf("%q from %s %s of %q", want, network, addr, from), func() bool {
		got, err := b.call(from, network, addr)
		return err == nil && got == want
	})
}

func (b *bed) refuses(network, addr string) {
	b.t.Helper()
	eventually(b.t, "nobody at "+addr, func() bool {
		_, err := b.call("", network, addr)
		return errors.Is(err, syscall.ECONNREFUSED)
	})
}

func TestHostPort(t *testing.T) { bridgeNetfilter(t, testHostPort) }

func testHostPort(t *testing.T) {
	b := newBed(t)
	web, other := b.pod("web"), b.pod("other")
	caller := b.pod("client")
	b.api.Put(hosted("web", web.String(), "8081", "udp 8081", "198.51.100.1 8082"))
	b.api.Put(hosted("other", other.String(), "127.0.0.1 8082"))
	b.run()
	for _, c := range []struct{ from, network, addr, want string }{
		{"", "tcp4", "198.51.100.1:8081", "web 198.51.100.1"},
		{"", "tcp4", "127.0.0.1:8081", "web 10.244.0.1"}, // nobody can reply to a loopback address
		{"", "tcp4", "10.244.0.1:8081", "web 10.244.0.1"},
		{"client", "tcp4", "198.51.100.1:8081", "web " + caller.String()},
		{"client", "tcp4", "10.244.0.1:8081", "web " + caller.String()},
		{"web", "tcp4", "198.51.100.1:8081", "web 10.244.0.1"}, // to itself
		{"", "udp4", "198.51.100.1:8081", "web"},
		{"client", "udp4", "198.51.100.1:8081", "web"},
		{"", "tcp4", "198.51.100.1:8082", "web 198.51.100.1"},
		{"", "tcp4", "127.0.0.1:8082", "other 10.244.0.1"}, // the same port of another address
	} {
		b.answers(c.from, c.network, c.addr, c.want)
	}
	b.refuses("tcp4", "10.244.0.1:8082")
	// A pod that ends, and one that is gone, have no port any more.
	ended := hosted("other", other.String(), "127.0.0.1 8082")
	ended.Status.Phase = corev1.PodFailed
	b.api.Put(ended)
	b.refuses("tcp4", "127.0.0.1:8082")
	if err := b.api.Delete(context.Background(), schema.ResourceFor[*corev1.Pod](), schema.Key{Namespace: "shop", Name: "web"}, client.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil {
		t.Fatal(err)
	}
	b.refuses("tcp4", "198.51.100.1:8081")
	b.refuses("tcp4", "198.51.100.1:8082")
}

// A host port that is a node port too belongs to whoever was there first, and
// comes free for the other.
func TestHostPortAndNodePort(t *testing.T) {
	b := newBed(t)
	host, port := b.pod("host"), b.pod("port")
	pod := hosted("host", host.String(), "30080")
	svc := web()
	svc.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
	b.api.Put(newSlice("web", "web-x", 8080, []discoveryv1.Endpoint{ep(port.String(), "a")}...))
	b.api.Put(svc)
	b.api.Put(pod)
	b.run()
	b.answers("", "tcp4", "198.51.100.1:30080", "port 10.244.0.1")
	if err := b.api.Delete(context.Background(), schema.ResourceFor[*corev1.Service](), schema.KeyOf(svc), client.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.answers("", "tcp4", "198.51.100.1:30080", "host 198.51.100.1")
}

// Pods of other nodes, and what the API says of pods without host ports, do
// not concern the kernel.
func TestOnlyPodsOfTheNode(t *testing.T) {
	p := New(Config{NodeName: "a"})
	elsewhere, plain := hosted("x", "10.244.1.5", "8081"), hosted("y", "10.244.0.5")
	elsewhere.Spec.NodeName = "b"
	for _, pod := range []*corev1.Pod{elsewhere, plain} {
		p.onPod(client.Event{Type: client.Added, Object: pod})
		p.onPod(client.Event{Type: client.Deleted, Object: pod})
	}
	if len(p.dirty) != 0 {
		t.Errorf("planned anew: %v", p.dirty)
	}
	mine := hosted("z", "10.244.0.6", "8081")
	p.onPod(client.Event{Type: client.Added, Object: mine})
	if c := p.plan(); len(c.ops) == 0 {
		t.Error("no operations for a host port")
	}
	ready := mine.DeepCopy()
	ready.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	p.onPod(client.Event{Type: client.Modified, Object: ready, Old: mine})
	if len(p.dirty) != 0 {
		t.Error("a condition was planned for")
	}
	moved := mine.DeepCopy()
	moved.Status.PodIP = "10.244.0.7"
	p.onPod(client.Event{Type: client.Modified, Object: moved, Old: ready})
	want := VIP{netip.IPv4Unspecified(), protoTCP, 8081}
	if p.plan(); p.model.live[want].Endpoints[0].Addr().String() != "10.244.0.7" {
		t.Errorf("leads to %v", p.model.live[want].Endpoints)
	}
}
