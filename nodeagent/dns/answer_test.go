package dns

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

func newService(name, ip string, change ...func(*corev1.Service)) *corev1.Service {
	svc := schema.ResourceFor[*corev1.Service]().New().(*corev1.Service)
	svc.Namespace, svc.Name = "shop", name
	svc.Spec.ClusterIP = ip
	svc.Spec.Ports = []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}, {Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53}}
	for _, c := range change {
		c(svc)
	}
	return svc
}

func newSlice(svc string, eps ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	s := schema.ResourceFor[*discoveryv1.EndpointSlice]().New().(*discoveryv1.EndpointSlice)
	s.Namespace, s.Name = "shop", svc+"-x"
	s.Labels = map[string]string{discoveryv1.LabelServiceName: svc}
	s.AddressType = discoveryv1.AddressTypeIPv4
	s.Ports = []discoveryv1.EndpointPort{{Name: ptr.To("sql"), Protocol: ptr.To(corev1.ProtocolTCP), Port: ptr.To(int32(5432))}}
	s.Endpoints = eps
	return s
}

func ep(addr, host string, ready bool) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: []string{addr}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}
	if host != "" {
		e.Hostname = &host
	}
	return e
}

// shop is the world of the tests.
func shop() *tables {
	t := newTables("cluster.local")
	for _, svc := range []*corev1.Service{
		newService("web", "10.96.0.80"),
		newService("dual", "10.96.0.81", func(s *corev1.Service) { s.Spec.ClusterIPs = []string{"10.96.0.81", "fd00::81"} }),
		newService("db", "None"),
		newService("empty", "None"),
		newService("ext", "", func(s *corev1.Service) {
			s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, "db.example.com"
		}),
		newService("alias", "", func(s *corev1.Service) {
			s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, "web.shop.svc.cluster.local"
		}),
	} {
		t.onService(client.Event{Type: client.Added, Object: svc})
	}
	t.onSlice(client.Event{Type: client.Added, Object: newSlice("db",
		ep("10.244.0.7", "db-0", true), ep("10.244.0.8", "db-1", true), ep("10.244.0.9", "db-2", false), ep("10.244.0.6", "", true))})
	return t
}

// say writes an answer as one line: rcode and records without their times.
func say(a answer) string {
	out := []string{dns.RcodeToString[a.rcode]}
	for _, rrs := range [][]dns.RR{a.answer, a.extra} {
		var lines []string
		for _, rr := range rrs {
			lines = append(lines, strings.Join(strings.Fields(strings.TrimPrefix(rr.String(), rr.Header().String())), " "))
		}
		slices.Sort(lines)
		out = append(out, strings.Join(lines, ","))
	}
	if len(a.ns) > 0 {
		out = append(out, "SOA")
	}
	return strings.TrimRight(strings.Join(out, " | "), " |")
}

func TestAnswers(t *testing.T) {
	tab := shop()
	for _, c := range []struct{ name, qtype, want string }{
		{"web.shop.svc.cluster.local.", "A", "NOERROR | 10.96.0.80"},
		{"WEB.Shop.svc.CLUSTER.local.", "A", "NOERROR | 10.96.0.80"},
		{"web.shop.svc.cluster.local.", "AAAA", "NOERROR |  |  | SOA"},
		{"dual.shop.svc.cluster.local.", "AAAA", "NOERROR | fd00::81"},
		{"web.shop.svc.cluster.local.", "MX", "NOERROR |  |  | SOA"},
		{"nobody.shop.svc.cluster.local.", "A", "NXDOMAIN |  |  | SOA"},
		{"web.nowhere.svc.cluster.local.", "A", "NXDOMAIN |  |  | SOA"},
		{"x.web.shop.svc.cluster.local.", "A", "NXDOMAIN |  |  | SOA"},
		// Headless: the ready endpoints, and each under its name.
		{"db.shop.svc.cluster.local.", "A", "NOERROR | 10.244.0.6,10.244.0.7,10.244.0.8"},
		{"db-1.db.shop.svc.cluster.local.", "A", "NOERROR | 10.244.0.8"},
		{"db-2.db.shop.svc.cluster.local.", "A", "NXDOMAIN |  |  | SOA"},
		{"10-244-0-6.db.shop.svc.cluster.local.", "A", "NOERROR | 10.244.0.6"},
		{"empty.shop.svc.cluster.local.", "A", "NOERROR |  |  | SOA"},
		// SRV.
		{"_http._tcp.web.shop.svc.cluster.local.", "SRV", "NOERROR | 0 100 80 web.shop.svc.cluster.local. | 10.96.0.80"},
		{"_http._udp.web.shop.svc.cluster.local.", "SRV", "NXDOMAIN |  |  | SOA"},
		{"_http._tcp.web.shop.svc.cluster.local.", "A", "NOERROR |  |  | SOA"},
		{"_tcp.web.shop.svc.cluster.local.", "SRV", "NOERROR |  |  | SOA"},
		{"web.shop.svc.cluster.local.", "SRV", "NOERROR | 0 50 53 web.shop.svc.cluster.local.,0 50 80 web.shop.svc.cluster.local. | 10.96.0.80"},
		{"_sql._tcp.db.shop.svc.cluster.local.", "SRV", "NOERROR | 0 33 5432 10-244-0-6.db.shop.svc.cluster.local.,0 33 5432 db-0.db.shop.svc.cluster.local.,0 33 5432 db-1.db.shop.svc.cluster.local. | 10.244.0.6,10.244.0.7,10.244.0.8"},
		// ExternalName.
		{"ext.shop.svc.cluster.local.", "A", "NOERROR | db.example.com."},
		{"ext.shop.svc.cluster.local.", "TXT", "NOERROR |  |  | SOA"},
		// Pods.
		{"10-244-0-7.shop.pod.cluster.local.", "A", "NOERROR | 10.244.0.7"},
		{"10-244-0-7.shop.pod.cluster.local.", "AAAA", "NOERROR |  |  | SOA"},
		{"fd00--7.shop.pod.cluster.local.", "AAAA", "NOERROR | fd00::7"},
		{"nonsense.shop.pod.cluster.local.", "A", "NXDOMAIN |  |  | SOA"},
		// Reverse.
		{"80.0.96.10.in-addr.arpa.", "PTR", "NOERROR | web.shop.svc.cluster.local."},
		{"7.0.244.10.in-addr.arpa.", "PTR", "NOERROR | db-0.db.shop.svc.cluster.local."},
		{"1.8.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa.", "PTR", "NOERROR | dual.shop.svc.cluster.local."},
		// The tree above the names.
		{"cluster.local.", "NS", "NOERROR | ns.dns.cluster.local."},
		{"cluster.local.", "A", "NOERROR |  |  | SOA"},
		{"svc.cluster.local.", "A", "NOERROR |  |  | SOA"},
		{"shop.svc.cluster.local.", "A", "NOERROR |  |  | SOA"},
		{"nowhere.svc.cluster.local.", "A", "NXDOMAIN |  |  | SOA"},
		{"dns-version.cluster.local.", "TXT", `NOERROR | "1.1.0"`},
		{"example.com.cluster.local.", "A", "NXDOMAIN |  |  | SOA"},
		// Not ours.
		{"example.com.", "A", "-"},
		{"notcluster.local.", "A", "-"},
		{"9.9.9.9.in-addr.arpa.", "PTR", "-"},
	} {
		a, ours := tab.answer(dns.Question{Name: c.name, Qtype: dns.StringToType[c.qtype], Qclass: dns.ClassINET}, 0)
		got := "-"
		if ours {
			got = say(a)
		}
		if strings.TrimRight(got, " |") != strings.TrimRight(c.want, " |") {
			t.Errorf("%s %s:\n got %s\nwant %s", c.name, c.qtype, got, c.want)
		}
	}
}

func TestAddressesTurn(t *testing.T) {
	tab := shop()
	first := map[string]bool{}
	for seed := range 3 {
		a, _ := tab.answer(dns.Question{Name: "db.shop.svc.cluster.local.", Qtype: dns.TypeA}, seed)
		first[a.answer[0].(*dns.A).A.String()] = true
	}
	if len(first) != 3 {
		t.Errorf("clients that take the first address always get one of %v", first)
	}
}

// Whatever comes and goes, tables that followed it equal tables made at once.
func TestTablesForgetWhatIsGone(t *testing.T) {
	tab := shop()
	svc := newService("db", "None")
	tab.onService(client.Event{Type: client.Deleted, Object: svc})
	tab.onSlice(client.Event{Type: client.Modified, Object: newSlice("web"), Old: newSlice("db")})
	for _, name := range []string{"web", "dual", "empty", "ext", "alias"} {
		tab.onService(client.Event{Type: client.Deleted, Object: newService(name, "")})
	}
	tab.onSlice(client.Event{Type: client.Deleted, Object: newSlice("web")})
	tab.onSlice(client.Event{Type: client.Deleted, Object: newSlice("db")})
	if n := len(tab.specs) + len(tab.slices) + len(tab.services) + len(tab.spaces) + len(tab.reverse); n != 0 {
		t.Errorf("left: %+v", tab)
	}
}

func FuzzAnswer(f *testing.F) {
	tab := shop()
	for _, s := range []string{"web.shop.svc.cluster.local.", "_http._tcp.web.shop.svc.cluster.local.", "..cluster.local.", "7.0.244.10.in-addr.arpa.", "x.ip6.arpa.", "-.a.pod.cluster.local."} {
		f.Add(s, dns.TypeA, 1)
		f.Add(s, dns.TypeSRV, 7)
		f.Add(s, dns.TypePTR, 7)
	}
	f.Fuzz(func(t *testing.T, name string, qtype uint16, seed int) {
		if seed < 0 {
			seed = 0
		}
		a, ours := tab.answer(dns.Question{Name: name, Qtype: qtype, Qclass: dns.ClassINET}, seed)
		if ours && len(a.answer) == 0 && len(a.ns) == 0 {
			t.Errorf("%q %d: neither an answer nor an SOA", name, qtype)
		}
		if !ours && len(a.answer) > 0 {
			t.Errorf("%q %d: an answer to what is not ours", name, qtype)
		}
	})
}

func BenchmarkAnswer(b *testing.B) {
	tab := newTables("cluster.local")
	for i := range 5000 {
		tab.onService(client.Event{Type: client.Added, Object: newService(fmt.Sprint("s", i), netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}).String())})
	}
	q := dns.Question{Name: "s77.shop.svc.cluster.local.", Qtype: dns.TypeA, Qclass: dns.ClassINET}
	for b.Loop() {
		tab.answer(q, 1)
	}
}
