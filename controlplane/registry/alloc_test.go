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
	if a, p := claimed(g); a != len(list) || p != len(list) {
		t.Errorf("%d addresses and %d ports are taken for %d services", a, p, len(list))
	}
	for _, o := range list {
		if err := g.Delete(ctx, services, key(o.GetName()), client.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if a, p := claimed(g); a != 0 || p != 0 || len(g.alloc.flight) != 0 {
		t.Errorf("%d addresses and %d ports are taken for no service, %v is about to be", a, p, g.alloc.flight)
	}
}

func claimed(g *Registry) (addresses, ports int) {
	return g.store.Snapshot(ipAddresses).Len(), g.store.Snapshot(portClaims).Len()
}

// TestTwoAllocators has two API servers over one etcd: neither gives out what
// the other has given out, though each has seen the other's too late.
func TestTwoAllocators(t *testing.T) {
	g, _ := open(t, t.TempDir())
	ports := [2]int{30000, 30011}
	g.alloc = newAllocator(netip.MustParsePrefix("10.0.0.0/28"), ports)
	other := New(Config{Store: g.store, ServiceCIDR: netip.MustParsePrefix("10.0.0.0/28"), NodePorts: ports})
	ctx := as("system:test")
	var wg sync.WaitGroup
	for i := range 12 { // 16 less network, broadcast, and the two that are reserved
		wg.Add(1)
		go func() {
			defer wg.Done()
			if _, err := []*Registry{g, other}[i%2].Create(ctx, services, nodePortService(fmt.Sprintf("s%d", i)), client.WriteOptions{}); err != nil {
				t.Error(err)
			}
		}()
	}
	wg.Wait()
	seen := map[any]string{}
	for _, o := range g.Cache().List(services, "") {
		svc := o.(*corev1.Service)
		for _, what := range []any{svc.Spec.ClusterIP, svc.Spec.Ports[0].NodePort} {
			if seen[what] != "" {
				t.Errorf("%s and %s both have %v", seen[what], svc.Name, what)
			}
			seen[what] = svc.Name
		}
	}
	if len(seen) != 24 {
		t.Errorf("%d addresses and ports for 12 services", len(seen))
	}
}

// TestClaimsAreMended: a Service whose claims are lost has them again after a
// restart, and with its next change.
func TestClaimsAreMended(t *testing.T) {
	dir := t.TempDir()
	g, stop := open(t, dir)
	ctx := as("system:test")
	if _, err := g.Create(ctx, services, nodePortService("a"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	lose := func() {
		for it := range g.store.Snapshot(ipAddresses).All() {
			if err := g.Delete(ctx, ipAddresses, it.Key, client.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	lose()
	svc := g.Cache().List(services, "")[0].DeepCopyObject().(*corev1.Service)
	svc.Labels = map[string]string{"a": "b"}
	if _, err := g.Update(ctx, services, svc, client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if a, p := claimed(g); a != 1 || p != 1 {
		t.Errorf("after a change: %d addresses and %d ports", a, p)
	}
	lose()
	stop()
	g, _ = open(t, dir)
	taken := nodePortService("b")
	taken.Spec.ClusterIP = svc.Spec.ClusterIP
	if _, err := g.Create(ctx, services, taken, client.WriteOptions{}); err == nil || !strings.Contains(err.Error(), errIPTaken.Error()) {
		t.Errorf("after a restart: %v", err)
	}
}

func TestAllocatorRange(t *testing.T) {
	g, _ := open(t, t.TempDir())
	a := newAllocator(netip.MustParsePrefix("10.0.0.0/27"), [2]int{30000, 30002})
	o := newOverlay(g.store.View())
	got := map[netip.Addr]bool{}
	upper := 0
	for {
		ip, err := a.next(o)
		if err != nil {
			break
		}
		if len(got) < 15 && ip.As4()[3] < 16 {
			upper++
		}
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
		if _, err := a.nextPort(o); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.nextPort(o); err == nil {
		t.Error("a fourth port of three")
	}
	a.settle(&o.claims)
	if _, err := a.nextPort(newOverlay(g.store.View())); err != nil {
		t.Errorf("nothing was stored: %v", err)
	}
}

func TestFullRange(t *testing.T) {
	g, _ := open(t, t.TempDir())
	g.alloc = newAllocator(netip.MustParsePrefix("10.0.0.0/30"), [2]int{30000, 32767})
	if _, err := g.Create(as("system:test"), services, nodePortService("a"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := g.Create(as("system:test"), services, nodePortService("b"), client.WriteOptions{})
	if err == nil || !strings.Contains(err.Error(), `failed to allocate a serviceIP for Service "b": range is full`) {
		t.Errorf("got %v", err)
	}
}
