package apiendpoint

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// What is missing is made, what was changed is put back, and where all is well
// nothing is written.
func TestReconcile(t *testing.T) {
	f := client.NewFake()
	c := New(Config{Client: f, Cache: f.Cache(), ServiceIP: netip.MustParseAddr("10.96.0.1"),
		Servers: func() []netip.AddrPort { return []netip.AddrPort{netip.MustParseAddrPort("10.244.0.1:7443")} }})
	reconcile := func() string {
		t.Helper()
		if _, err := c.Reconcile(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		s, err := client.Get[*discoveryv1.EndpointSlice](t.Context(), f, key)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Endpoints[0].Addresses[0]; got != "10.244.0.1" || *s.Ports[0].Port != 7443 {
			t.Fatalf("slice leads to %s:%d", got, *s.Ports[0].Port)
		}
		return s.ResourceVersion
	}
	first := reconcile()
	svc, err := client.Get[*corev1.Service](t.Context(), f, key)
	if err != nil || svc.Spec.ClusterIP != "10.96.0.1" || svc.Spec.Ports[0].TargetPort.IntValue() != 7443 {
		t.Fatalf("service: %v %v", svc, err)
	}
	if again := reconcile(); again != first {
		t.Errorf("written again without a change: %s, was %s", again, first)
	}
	s, err := client.Get[*discoveryv1.EndpointSlice](t.Context(), f, key)
	if err != nil {
		t.Fatal(err)
	}
	s = s.DeepCopy()
	s.Endpoints[0].Addresses = []string{"192.0.2.1"}
	if _, err := client.Update(t.Context(), f, s, client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	reconcile()
	if err := f.Delete(t.Context(), schema.ResourceFor[*discoveryv1.EndpointSlice](), key, client.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	reconcile()
}

func TestWatchesOnlyItsOwn(t *testing.T) {
	for _, w := range New(Config{}).Watches() {
		o := w.Resource.New()
		o.SetNamespace("default")
		o.SetName("other")
		if keys := w.Map(client.Event{Object: o}); keys != nil {
			t.Errorf("%s default/other wakes %v", w.Resource, keys)
		}
		o.SetName("kubernetes")
		if keys := w.Map(client.Event{Object: o}); len(keys) != 1 {
			t.Errorf("%s default/kubernetes wakes %v", w.Resource, keys)
		}
	}
}
