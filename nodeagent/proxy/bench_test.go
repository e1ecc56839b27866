package proxy

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/writ-os/writ/controlplane/client"
)

// fleet puts n services with 5 endpoints each.
func fleet(api *client.Fake, n int) {
	for i := range n {
		name := fmt.Sprint("s", i)
		api.Put(newService(name, netip.AddrFrom4([4]byte{10, 96, byte(1 + i>>8), byte(i)}).String(), 80))
		api.Put(newSlice(name, name+"-x", 8080, fleetEndpoints(i, 5)...))
	}
}

func fleetEndpoints(i, n int) []discoveryv1.Endpoint {
	var eps []discoveryv1.Endpoint
	for j := range n {
		eps = append(eps, ep(netip.AddrFrom4([4]byte{10, 128 + byte(j), byte(i >> 8), byte(i)}).String(), "b"))
	}
	return eps
}

// BenchmarkFullLoad brings 5,000 services with 25,000 endpoints into the kernel.
func BenchmarkFullLoad(b *testing.B) {
	api := client.NewFake()
	fleet(api, 5000)
	k, err := openNFT(clusterCIDR, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer k.Close()
	for b.Loop() {
		p := New(Config{Cache: api.Cache(), Kernel: k})
		for _, s := range client.CachedList[*discoveryv1.EndpointSlice](api.Cache(), "") {
			p.onSlice(client.Event{Type: client.Added, Object: s})
		}
		for _, s := range client.CachedList[*corev1.Service](api.Cache(), "") {
			p.onService(client.Event{Type: client.Added, Object: s})
		}
		if err := p.write(k, p.plan(), true); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEndpointChange takes one changed EndpointSlice from the event to the
// kernel, with 5,000 other services there.
func BenchmarkEndpointChange(b *testing.B) {
	for _, c := range []struct {
		name string
		from int
	}{{"replace", 5}, {"scale", 6}} {
		b.Run(c.name, func(b *testing.B) {
			api := client.NewFake()
			fleet(api, 5000)
			k, err := openNFT(clusterCIDR, nil)
			if err != nil {
				b.Fatal(err)
			}
			defer k.Close()
			p := New(Config{Cache: api.Cache(), Kernel: k})
			for _, s := range client.CachedList[*discoveryv1.EndpointSlice](api.Cache(), "") {
				p.onSlice(client.Event{Type: client.Added, Object: s})
			}
			for _, s := range client.CachedList[*corev1.Service](api.Cache(), "") {
				p.onService(client.Event{Type: client.Added, Object: s})
			}
			if err := p.write(k, p.plan(), true); err != nil {
				b.Fatal(err)
			}
			worst := time.Duration(0)
			for i := 0; b.Loop(); i++ {
				eps := fleetEndpoints(7, 5)
				if i%2 == 0 {
					eps = fleetEndpoints(7, c.from)
					eps[0].Addresses = []string{"10.200.0.1"}
				}
				start := time.Now()
				p.onSlice(client.Event{Type: client.Modified, Object: newSlice("s7", "s7-x", 8080, eps...)})
				if err := p.write(k, p.plan(), false); err != nil {
					b.Fatal(err)
				}
				worst = max(worst, time.Since(start))
			}
			b.ReportMetric(float64(worst.Microseconds()), "us-worst")
		})
	}
}
