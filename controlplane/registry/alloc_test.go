package registry

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
)

func nodePortService(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, Selector: map[string]string{"app": "x"},
			Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}},
		},
	}
}

// TestAllocationIsDistinct has many writers at once, refusals between them, and
// a restart in the middle.
func TestAllocationIsDistinct(t *testing.T) {
	dir := t.TempDir()
	g, stop := open(t, dir)
	ctx := as("system:test")
	create := func(g *Registry, from, to int) {
		var wg sync.WaitGroup
		for i := from; i < to; i++ {
			wg.Add(1)
			go func() {
				defer wg.Done()
				svc := nodePortService(fmt.Sprintf("s%d", i))
				if i%5 == 0 { // refused after it has claimed an address
					svc.Spec.Ports[0].NodePort = 80
					if _, err := g.Create(ctx, services, svc, client.WriteOptions{}); err == nil {
						t.Error("port 80 was allocated")
					}
					return
				}
				if _, err := g.Create(ctx, services, svc, client.WriteOptions{DryRun: i%5 == 1}); err != nil {
					t.Error(err)
				}
			}()
		}
		wg.Wait()
	}
	create(g, 0, 100)
	stop()
	g, _ = open(t, dir)
	create(g, 100, 200)

	addresses, ports := map[string]bool{}, map[int32]bool{}
	list := g.Cache().List(services, "")
	for _, o := range list {
		svc := o.(*corev1.Service)
		ip, p := svc.Spec.ClusterIP, svc.Spec.Ports[0].NodePort
		if addresses[ip] || ports[p] || ip == "" || p == 0 {
			t.Errorf("%s has %s and %d, which are taken or none", svc.Name, ip, p)
		}
		addresses[ip], ports[p] = true, true
	}
	if len(list) != 120 {
		t.Errorf("%d services, want 120", len(list))
	}
	if len(g.alloc.ips) != len(list) || len(g.alloc.used) != len(list) {
		t.Errorf("%d addresses and %d ports are taken for %d services", len(g.alloc.ips), len(g.alloc.used), len(list))
	}
	for _, o := range list {
		if err := g.Delete(ctx, services, key(o.GetName()), client.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if len(g.alloc.ips) != 0 || len(g.alloc.used) != 0 {
		t.Errorf("%d addresses and %d ports are taken for no service", len(g.alloc.ips), len(g.alloc.used))
	}
}

func TestAllocatorRange(t *testing.T) {
	a := newAllocator(netip.MustParsePrefix("10.0.0.0/27"), [2]int{30000, 30002})
	got := map[netip.Addr]bool{}
	upper := 0
	for {
		ip, err := a.freeIP()
		if err != nil {
			break
		}
		if len(got) < 15 && ip.As4()[3] < 16 {
			upper++
		}
		a.takeIP(&claims{}, ip)
		got[ip] = true
	}
	// 32 addresses less network, broadcast, and the two that are reserved.
	if len(got) != 28 || upper != 0 {
		t.Errorf("%d addresses were given out, %d of them from the lower band too early", len(got), upper)
	}
	for _, last := range []byte{0, 1, 10, 31} {
		if got[netip.AddrFrom4([4]byte{10, 0, 0, last})] {
			t.Errorf("10.0.0.%d was given out", last)
		}
	}
	for range 3 {
		p, ok := a.freePort()
		if !ok {
			t.Fatal("no port is left")
		}
		a.takePort(&claims{}, p)
	}
	if _, ok := a.freePort(); ok {
		t.Error("a fourth port of three")
	}
}

func TestFullRange(t *testing.T) {
	g, _ := open(t, t.TempDir())
	g.alloc = newAllocator(netip.MustParsePrefix("10.0.0.0/30"), [2]int{30000, 32767})
	if _, err := g.Create(as("system:test"), services, nodePortService("a"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := g.Create(as("system:test"), services, nodePortService("b"), client.WriteOptions{})
	if err == nil || !strings.Contains(err.Error(), "failed to allocate a serviceIP: range is full") {
		t.Errorf("got %v", err)
	}
}
