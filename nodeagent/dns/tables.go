package dns

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// tables hold what the names of the domain mean. Records are replaced, never
// changed.
type tables struct {
	domain string // "cluster.local."

	mu       sync.RWMutex
	specs    map[schema.Key]*corev1.Service
	slices   map[schema.Key]map[string]*discoveryv1.EndpointSlice
	services map[schema.Key]*record
	spaces   map[string]int // services in a namespace
	reverse  map[netip.Addr]map[schema.Key]string
	serial   uint32
}

// record is what DNS knows of one Service.
type record struct {
	key       schema.Key
	external  string       // of an ExternalName: the target
	headless  bool         // answered with endpoints
	addrs     []netip.Addr // ClusterIPs, or the endpoints of a headless Service
	ports     []port       // of a Service with ClusterIPs
	endpoints []endpoint   // of a headless Service
}

type port struct {
	name, proto string // lower case
	port        uint16
}

// endpoint is one address behind a headless Service, under a name of its own.
type endpoint struct {
	host  string
	addr  netip.Addr
	ports []port
}

func newTables(domain string) *tables {
	return &tables{
		domain:   strings.ToLower(strings.Trim(domain, ".")) + ".",
		specs:    map[schema.Key]*corev1.Service{},
		slices:   map[schema.Key]map[string]*discoveryv1.EndpointSlice{},
		services: map[schema.Key]*record{},
		spaces:   map[string]int{},
		reverse:  map[netip.Addr]map[schema.Key]string{},
		serial:   1,
	}
}

func (t *tables) onService(ev client.Event) {
	svc := ev.Object.(*corev1.Service)
	key := schema.KeyOf(svc)
	t.mu.Lock()
	defer t.mu.Unlock()
	if ev.Type == client.Deleted {
		delete(t.specs, key)
	} else {
		t.specs[key] = svc
	}
	t.rebuild(key)
}

func (t *tables) onSlice(ev client.Event) {
	slice := ev.Object.(*discoveryv1.EndpointSlice)
	key := schema.Key{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}
	t.mu.Lock()
	defer t.mu.Unlock()
	if old, ok := ev.Old.(*discoveryv1.EndpointSlice); ok && old != nil {
		was := schema.Key{Namespace: old.Namespace, Name: old.Labels[discoveryv1.LabelServiceName]}
		if was != key {
			t.dropSlice(was, old.Name)
		}
	}
	if ev.Type == client.Deleted {
		t.dropSlice(key, slice.Name)
		return
	}
	if t.slices[key] == nil {
		t.slices[key] = map[string]*discoveryv1.EndpointSlice{}
	}
	t.slices[key][slice.Name] = slice
	t.rebuild(key)
}

func (t *tables) dropSlice(key schema.Key, name string) {
	delete(t.slices[key], name)
	if len(t.slices[key]) == 0 {
		delete(t.slices, key)
	}
	t.rebuild(key)
}

// rebuild replaces the record of one Service and its reverse names.
func (t *tables) rebuild(key schema.Key) {
	var next *record
	if svc := t.specs[key]; svc != nil {
		next = newRecord(svc, t.slices[key])
	}
	old := t.services[key]
	if old == nil && next == nil {
		return
	}
	t.serial++
	if old != nil {
		t.spaces[key.Namespace]--
		for addr := range t.reverseOf(old) {
			delete(t.reverse[addr], key)
			if len(t.reverse[addr]) == 0 {
				delete(t.reverse, addr)
			}
		}
		delete(t.services, key)
	}
	if next != nil {
		t.spaces[key.Namespace]++
		for addr, name := range t.reverseOf(next) {
			if t.reverse[addr] == nil {
				t.reverse[addr] = map[schema.Key]string{}
			}
			t.reverse[addr][key] = name
		}
		t.services[key] = next
	}
	if t.spaces[key.Namespace] == 0 {
		delete(t.spaces, key.Namespace)
	}
}

// reverseOf are the names that the addresses of a Service have.
func (t *tables) reverseOf(r *record) map[netip.Addr]string {
	out := map[netip.Addr]string{}
	if !r.headless {
		for _, a := range r.addrs {
			out[a] = t.serviceName(r.key)
		}
		return out
	}
	for _, e := range r.endpoints {
		out[e.addr] = e.host + "." + t.serviceName(r.key)
	}
	return out
}

func (t *tables) serviceName(key schema.Key) string {
	return key.Name + "." + key.Namespace + ".svc." + t.domain
}

// newRecord reads a Service and its slices.
func newRecord(svc *corev1.Service, from map[string]*discoveryv1.EndpointSlice) *record {
	r := &record{key: schema.KeyOf(svc)}
	if svc.Spec.Type == corev1.ServiceTypeExternalName {
		r.external = strings.TrimSuffix(svc.Spec.ExternalName, ".") + "."
		return r
	}
	if svc.Spec.ClusterIP == corev1.ClusterIPNone {
		r.headless = true
		r.endpoints = headlessEndpoints(from)
		for _, e := range r.endpoints {
			if !slices.Contains(r.addrs, e.addr) {
				r.addrs = append(r.addrs, e.addr)
			}
		}
		return r
	}
	ips := svc.Spec.ClusterIPs
	if len(ips) == 0 {
		ips = []string{svc.Spec.ClusterIP}
	}
	for _, s := range ips {
		if a, err := netip.ParseAddr(s); err == nil {
			r.addrs = append(r.addrs, a)
		}
	}
	for _, p := range svc.Spec.Ports {
		r.ports = append(r.ports, port{strings.ToLower(p.Name), protoName(p.Protocol), uint16(p.Port)})
	}
	return r
}

// headlessEndpoints are the ready endpoints of all slices, by name and address.
func headlessEndpoints(from map[string]*discoveryv1.EndpointSlice) []endpoint {
	byName := map[string]*endpoint{}
	for _, slice := range from {
		if slice.AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		var ports []port
		for _, p := range slice.Ports {
			if p.Port != nil {
				ports = append(ports, port{strings.ToLower(ptr.Deref(p.Name, "")), protoName(ptr.Deref(p.Protocol, "")), uint16(*p.Port)})
			}
		}
		for _, e := range slice.Endpoints {
			if !ptr.Deref(e.Conditions.Ready, true) {
				continue
			}
			for _, s := range e.Addresses {
				a, err := netip.ParseAddr(s)
				if err != nil {
					continue
				}
				host := strings.ToLower(ptr.Deref(e.Hostname, ""))
				if host == "" {
					host = dashed(a)
				}
				id := host + " " + a.String()
				if have := byName[id]; have != nil {
					have.ports = append(have.ports, ports...)
				} else {
					byName[id] = &endpoint{host: host, addr: a, ports: slices.Clone(ports)}
				}
			}
		}
	}
	out := make([]endpoint, 0, len(byName))
	for _, e := range byName {
		e.ports = slices.Compact(slices.SortedFunc(slices.Values(e.ports), comparePorts))
		out = append(out, *e)
	}
	slices.SortFunc(out, func(a, b endpoint) int {
		return cmp.Or(a.addr.Compare(b.addr), strings.Compare(a.host, b.host))
	})
	return out
}

func comparePorts(a, b port) int {
	return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.proto, b.proto), cmp.Compare(a.port, b.port))
}

func protoName(p corev1.Protocol) string {
	return strings.ToLower(string(cmp.Or(p, corev1.ProtocolTCP)))
}

// dashed writes an address as one label: 10-244-0-7, fd00--1.
func dashed(a netip.Addr) string {
	return strings.NewReplacer(".", "-", ":", "-").Replace(a.String())
}

// undashed reads what dashed wrote.
func undashed(s string) (netip.Addr, bool) {
	if a, err := netip.ParseAddr(strings.ReplaceAll(s, "-", ".")); err == nil {
		return a, true
	}
	a, err := netip.ParseAddr(strings.ReplaceAll(s, "-", ":"))
	return a, err == nil && a.Zone() == ""
}

// namesOf are the names of an address, sorted.
func (t *tables) namesOf(a netip.Addr) []string {
	return slices.Compact(slices.Sorted(maps.Values(t.reverse[a])))
}
