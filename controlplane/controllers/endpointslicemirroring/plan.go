package endpointslicemirroring

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	netutils "k8s.io/utils/net"

	"github.com/writ-os/writ/controlplane/controller/sliceset"
)

// maxAddresses is how many addresses of a subset are mirrored.
const maxAddresses = 1000

// decision is what to write, and what could not be mirrored.
type decision struct {
	sliceset.Changes
	invalid, skipped int // addresses; skipped has the invalid ones too
}

// group is what one slice has: the endpoints of a family with the same ports.
type group struct {
	family    discoveryv1.AddressType
	ports     []discoveryv1.EndpointPort
	endpoints []discoveryv1.Endpoint
}

// plan says which slices make Endpoints whole. Each group keeps the slice that it
// has; of slices that no group needs, new groups take over what is there.
func plan(e *corev1.Endpoints, have []*discoveryv1.EndpointSlice) decision {
	var d decision
	slices.SortFunc(have, func(a, b *discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) })
	free := map[string][]*discoveryv1.EndpointSlice{}
	for _, s := range have {
		k := sliceset.GroupKey(s.AddressType, s.Ports)
		free[k] = append(free[k], s)
	}
	for _, g := range d.groups(e) {
		next := newSlice(e, g)
		k := sliceset.GroupKey(g.family, g.ports)
		if len(free[k]) == 0 {
			d.Create = append(d.Create, next)
			continue
		}
		is := free[k][0]
		free[k] = free[k][1:]
		if same(is, next) {
			continue
		}
		next.Name, next.GenerateName, next.ResourceVersion = is.Name, "", is.ResourceVersion
		d.Update = append(d.Update, next)
	}
	for _, k := range slices.Sorted(maps.Keys(free)) {
		d.Remove = append(d.Remove, free[k]...)
	}
	d.recycle()
	return d
}

// recycle turns slices that would go into those that would come. The family of a
// slice cannot change.
func (d *decision) recycle() {
	var create []*discoveryv1.EndpointSlice
	for _, s := range d.Create {
		i := slices.IndexFunc(d.Remove, func(old *discoveryv1.EndpointSlice) bool { return old.AddressType == s.AddressType })
		if i < 0 {
			create = append(create, s)
			continue
		}
		s.Name, s.GenerateName, s.ResourceVersion = d.Remove[i].Name, "", d.Remove[i].ResourceVersion
		d.Update = append(d.Update, s)
		d.Remove = slices.Delete(d.Remove, i, i+1)
	}
	d.Create = create
}

// groups are the slices that Endpoints come to.
func (d *decision) groups(e *corev1.Endpoints) []*group {
	var out []*group
	at := map[string]*group{}
	for _, s := range repack(e.Subsets) {
		ports := slicePorts(s.Ports)
		added := 0
		add := func(list []corev1.EndpointAddress, ready bool) {
			for i := range list {
				if added >= maxAddresses {
					return
				}
				endpoint, family, ok := mirrored(&list[i], ready)
				if !ok {
					d.invalid++
					continue
				}
				added++
				k := sliceset.GroupKey(family, ports)
				if at[k] == nil {
					at[k] = &group{family: family, ports: ports}
					out = append(out, at[k])
				}
				if len(at[k].endpoints) < maxAddresses {
					at[k].endpoints = append(at[k].endpoints, endpoint)
				}
			}
		}
		add(s.Addresses, true)
		add(s.NotReadyAddresses, false)
		d.skipped += len(s.Addresses) + len(s.NotReadyAddresses) - added
	}
	return out
}

// mirrored is an address as an endpoint; false for one that is none.
func mirrored(a *corev1.EndpointAddress, ready bool) (discoveryv1.Endpoint, discoveryv1.AddressType, bool) {
	ip := netutils.ParseIPSloppy(a.IP)
	if ip == nil {
		return discoveryv1.Endpoint{}, "", false
	}
	family := discoveryv1.AddressTypeIPv4
	if ip.To4() == nil {
		family = discoveryv1.AddressTypeIPv6
	}
	e := discoveryv1.Endpoint{
		Addresses: []string{ip.String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		TargetRef: a.TargetRef, NodeName: a.NodeName,
	}
	if a.Hostname != "" {
		e.Hostname = &a.Hostname
	}
	return e, family, true
}

func slicePorts(ports []corev1.EndpointPort) []discoveryv1.EndpointPort {
	out := []discoveryv1.EndpointPort{}
	for i := range ports {
		p := ports[i].DeepCopy()
		out = append(out, discoveryv1.EndpointPort{Name: &p.Name, Port: &p.Port, Protocol: &p.Protocol, AppProtocol: p.AppProtocol})
	}
	return out
}

// newSlice is the slice of a group, under a name of the server's.
func newSlice(e *corev1.Endpoints, g *group) *discoveryv1.EndpointSlice {
	prefix := e.Name + "-"
	if len(validation.NameIsDNSSubdomain(prefix, true)) > 0 {
		prefix = e.Name
	}
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: e.Namespace, GenerateName: prefix, Labels: map[string]string{},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(e, corev1.SchemeGroupVersion.WithKind("Endpoints"))},
		},
		AddressType: g.family, Ports: g.ports, Endpoints: g.endpoints,
	}
	maps.Copy(s.Labels, e.Labels)
	s.Labels[discoveryv1.LabelServiceName], s.Labels[discoveryv1.LabelManagedBy] = e.Name, string(ManagedBy)
	for k, v := range e.Annotations {
		if k == corev1.EndpointsLastChangeTriggerTime || k == corev1.LastAppliedConfigAnnotation {
			continue
		}
		if s.Annotations == nil {
			s.Annotations = map[string]string{}
		}
		s.Annotations[k] = v
	}
	return s
}

// same says whether a slice has what it should have. The order of its endpoints
// does not count.
func same(is, want *discoveryv1.EndpointSlice) bool {
	if !maps.Equal(is.Labels, want.Labels) || !maps.Equal(is.Annotations, want.Annotations) ||
		!apiequality.Semantic.DeepEqual(is.OwnerReferences, want.OwnerReferences) {
		return false
	}
	sorted := func(all []discoveryv1.Endpoint) []discoveryv1.Endpoint {
		return slices.SortedFunc(slices.Values(all), func(a, b discoveryv1.Endpoint) int {
			return strings.Compare(strings.Join(a.Addresses, ","), strings.Join(b.Addresses, ","))
		})
	}
	return apiequality.Semantic.DeepEqual(sorted(is.Endpoints), sorted(want.Endpoints))
}
