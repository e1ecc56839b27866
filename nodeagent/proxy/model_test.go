package proxy

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/writ-os/writ/schema"
)

func newService(name, ip string, port int32, change ...func(*corev1.Service)) *corev1.Service {
	svc := schema.ResourceFor[*corev1.Service]().New().(*corev1.Service)
	svc.Namespace, svc.Name = "shop", name
	svc.Spec.ClusterIP = ip
	svc.Spec.Ports = []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: port}}
	for _, c := range change {
		c(svc)
	}
	return svc
}

// ep is an endpoint in words: address, node and what it is up to.
func ep(addr, node string, state ...string) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: []string{addr}, NodeName: ptr.To(node)}
	e.Conditions.Ready = ptr.To(!slices.Contains(state, "not ready") && !slices.Contains(state, "dying"))
	e.Conditions.Serving = ptr.To(!slices.Contains(state, "not ready"))
	e.Conditions.Terminating = ptr.To(slices.Contains(state, "dying"))
	return e
}

func newSlice(svc, name string, port int32, eps ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	s := schema.ResourceFor[*discoveryv1.EndpointSlice]().New().(*discoveryv1.EndpointSlice)
	s.Namespace, s.Name = "shop", name
	s.Labels = map[string]string{discoveryv1.LabelServiceName: svc}
	s.AddressType = discoveryv1.AddressTypeIPv4
	s.Ports = []discoveryv1.EndpointPort{{Name: ptr.To("http"), Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To(port)}}
	s.Endpoints = eps
	return s
}

// The model changed step by step holds what a model built at once holds, and
// no operation is one that the kernel would refuse.
func TestChangesLeadWhereBuildingAnewLeads(t *testing.T) {
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		world := map[schema.Key]*service{}
		m, k := newModel(), &Fake{}
		if err := k.Replace(nil); err != nil {
			t.Fatal(err)
		}
		for step := range 80 {
			key := schema.Key{Namespace: "shop", Name: fmt.Sprint("s", rnd.IntN(6))}
			s := randomService(rnd, key.Name)
			world[key] = s
			if err := k.Apply(m.set(key, s.created(), planService(s, "a")).ops); err != nil {
				t.Fatalf("seed %d step %d: %v", seed, step, err)
			}
			if rnd.IntN(10) == 0 { // as after a refusal of the kernel
				if err := k.Replace(m.everything(changes{}).ops); err != nil {
					t.Fatalf("seed %d step %d: %v", seed, step, err)
				}
			}
			anew, want := newModel(), &Fake{}
			for key, s := range world {
				anew.set(key, s.created(), planService(s, "a"))
			}
			if err := want.Replace(anew.everything(changes{}).ops); err != nil {
				t.Fatal(err)
			}
			if g, w := picture(t, k), picture(t, want); !reflect.DeepEqual(g, w) {
				t.Fatalf("seed %d step %d:\n got %v\nwant %v", seed, step, g, w)
			}
		}
	}
}

// picture is the state of a kernel without the order of endpoints and without
// unused chains.
func picture(t *testing.T, k *Fake) map[string]string {
	out := map[string]string{}
	used := 0
	for m, vips := range k.VIPs {
		for v, op := range vips {
			eps, _ := k.Targets(m, v)
			slices.SortFunc(eps, netip.AddrPort.Compare)
			used += len(eps)
			out[fmt.Sprint(m, v)] = fmt.Sprint(op.Shape, op.Drop, eps)
		}
	}
	if used != len(k.Endpoints) {
		t.Fatalf("%d endpoints in the kernel, %d are used", len(k.Endpoints), used)
	}
	for a := range k.Hairpin {
		out["hairpin "+a.String()] = ""
	}
	return out
}

func randomService(rnd *rand.Rand, name string) *service {
	s := &service{slices: map[string]*discoveryv1.EndpointSlice{}}
	if rnd.IntN(6) > 0 {
		s.spec = newService(name, fmt.Sprintf("10.96.0.%d", 1+name[1]-'0'), 80, func(svc *corev1.Service) {
			// Few node ports and external addresses: they collide.
			svc.CreationTimestamp = metav1.Time{Time: time.Unix(int64(name[1]), 0)}
			svc.Spec.Ports[0].NodePort = int32(30000 + rnd.IntN(4))
			svc.Spec.ExternalIPs = []string{fmt.Sprintf("192.0.2.%d", rnd.IntN(3))}
			if rnd.IntN(2) == 0 {
				svc.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
			}
			if rnd.IntN(3) == 0 {
				svc.Spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyLocal)
			}
			if rnd.IntN(3) == 0 {
				svc.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
			}
		})
	}
	states := []string{"", "not ready", "dying"}
	for i := range rnd.IntN(3) {
		var eps []discoveryv1.Endpoint
		for range rnd.IntN(5) {
			eps = append(eps, ep(fmt.Sprintf("10.244.0.%d", rnd.IntN(8)), string("ab"[rnd.IntN(2)]), states[rnd.IntN(3)]))
		}
		n := fmt.Sprint(name, "-", i)
		s.slices[n] = newSlice(name, n, 8080, eps...)
	}
	return s
}

func TestPlanService(t *testing.T) {
	local := func(svc *corev1.Service) { svc.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal }
	nodePort := func(svc *corev1.Service) { svc.Spec.Ports[0].NodePort = 30080 }
	cluster := VIP{netip.MustParseAddr("10.96.0.1"), protoTCP, 80}
	node := VIP{netip.IPv4Unspecified(), protoTCP, 30080}
	a, b := "10.244.0.1:8080", "10.244.1.1:8080"
	two := []discoveryv1.Endpoint{ep("10.244.0.1", "a"), ep("10.244.1.1", "b")}
	for _, c := range []struct {
		name string
		svc  *corev1.Service
		eps  []discoveryv1.Endpoint
		vip  VIP
		want []string // nil: no entry
		in   []string
	}{
		{name: "ClusterIP", svc: newService("s", "10.96.0.1", 80), eps: two, vip: cluster, want: []string{a, b}},
		{name: "no endpoints", svc: newService("s", "10.96.0.1", 80), vip: cluster, want: []string{}},
		{name: "headless", svc: newService("s", "None", 80), eps: two, vip: cluster},
		{name: "not allocated", svc: newService("s", "", 80), eps: two, vip: cluster},
		{name: "ExternalName", svc: newService("s", "10.96.0.1", 80, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }), eps: two, vip: cluster},
		{name: "other port name", svc: newService("s", "10.96.0.1", 80, func(s *corev1.Service) { s.Spec.Ports[0].Name = "x" }), eps: two, vip: cluster, want: []string{}},
		{name: "not ready left out", svc: newService("s", "10.96.0.1", 80), vip: cluster, want: []string{b},
			eps: []discoveryv1.Endpoint{ep("10.244.0.1", "a", "not ready"), ep("10.244.1.1", "b")}},
		{name: "dying left out", svc: newService("s", "10.96.0.1", 80), vip: cluster, want: []string{b},
			eps: []discoveryv1.Endpoint{ep("10.244.0.1", "a", "dying"), ep("10.244.1.1", "b")}},
		{name: "dying, if nobody else", svc: newService("s", "10.96.0.1", 80), vip: cluster, want: []string{a},
			eps: []discoveryv1.Endpoint{ep("10.244.0.1", "a", "dying"), ep("10.244.1.1", "b", "not ready")}},
		{name: "NodePort", svc: newService("s", "10.96.0.1", 80, nodePort), eps: two, vip: node, want: []string{a, b}},
		{name: "NodePort, Local", svc: newService("s", "10.96.0.1", 80, nodePort, local), eps: two, vip: node, want: []string{a}, in: []string{a, b}},
		{name: "internal Local", svc: newService("s", "10.96.0.1", 80, func(s *corev1.Service) {
			s.Spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyLocal)
		}), eps: two, vip: cluster, want: []string{a}},
		{name: "load balancer", svc: newService("s", "10.96.0.1", 80, func(s *corev1.Service) {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.9"}}
		}), eps: two, vip: VIP{netip.MustParseAddr("192.0.2.9"), protoTCP, 80}, want: []string{a, b}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &service{spec: c.svc, slices: map[string]*discoveryv1.EndpointSlice{"x": newSlice("s", "x", 8080, c.eps...)}}
			e := planService(s, "a")[c.vip]
			if e == nil {
				if c.want != nil {
					t.Fatal("no entry")
				}
				return
			}
			if got := addrs(e.Endpoints); c.want == nil || !slices.Equal(got, c.want) {
				t.Errorf("endpoints %v, want %v", got, c.want)
			}
			if got := addrs(e.Inside); !slices.Equal(got, c.in) {
				t.Errorf("inside %v, want %v", got, c.in)
			}
		})
	}
}

func addrs(eps []netip.AddrPort) []string {
	var out []string
	for _, e := range eps {
		out = append(out, e.String())
	}
	return out
}

func TestRemovedEndpoints(t *testing.T) {
	m := newModel()
	key := schema.Key{Name: "s"}
	vip := VIP{netip.MustParseAddr("10.96.0.1"), protoUDP, 53}
	a, b := netip.MustParseAddrPort("10.244.0.1:53"), netip.MustParseAddrPort("10.244.0.2:53")
	set := func(eps ...netip.AddrPort) changes {
		return m.set(key, time.Time{}, map[VIP]*Entry{vip: {Endpoints: eps, Affinity: time.Minute}})
	}
	if c := set(a, b); !c.udp[vip] {
		t.Error("flows from before the service live on")
	}
	c := set(b)
	if !c.udp[vip] {
		t.Error("flows to the removed endpoint live on")
	}
	if !slices.ContainsFunc(c.ops, func(o Op) bool { return o.Verb == DropAffinity && o.Endpoint == a }) {
		t.Errorf("clients stay bound to the removed endpoint: %+v", c.ops)
	}
	if c := set(b, a); len(c.udp) > 0 {
		t.Error("flows are cut though nothing was removed")
	}
	if c := set(b, a); len(c.ops) > 0 {
		t.Errorf("no change gave %+v", c.ops)
	}
}

// Replacing one endpoint of many costs two operations, not as many as there
// are endpoints behind it.
func TestReplacingOneEndpointIsSmall(t *testing.T) {
	m := newModel()
	vip := VIP{netip.MustParseAddr("10.96.0.1"), protoTCP, 80}
	eps := map[netip.AddrPort]bool{}
	for i := range 100 {
		eps[netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 80)] = true
	}
	set := func() int {
		list := slices.SortedFunc(maps.Keys(eps), netip.AddrPort.Compare)
		return len(m.set(schema.Key{Name: "s"}, time.Time{}, map[VIP]*Entry{vip: {Endpoints: list}}).ops)
	}
	set()
	delete(eps, netip.MustParseAddrPort("10.0.0.7:80"))
	eps[netip.MustParseAddrPort("10.0.1.1:80")] = true
	if n := set(); n != 2 {
		t.Errorf("%d operations, want 2", n)
	}
}
