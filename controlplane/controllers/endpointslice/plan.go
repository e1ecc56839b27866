package endpointslice

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/controller/sliceset"
	"github.com/writ-os/writ/schema"
)

// maxEndpoints is how many endpoints one slice holds.
const maxEndpoints = 100

// decision is what to do about the slices of one Service.
type decision struct{ sliceset.Changes }

// group is the endpoints that share a slice: one family, the same ports.
type group struct {
	family    discoveryv1.AddressType
	ports     []discoveryv1.EndpointPort
	endpoints []discoveryv1.Endpoint
	have      []*discoveryv1.EndpointSlice
}

// plan compares the endpoints that a Service should have with its slices, and
// changes as few slices as it can.
func plan(svc *corev1.Service, pods []*corev1.Pod, have []*discoveryv1.EndpointSlice, zone func(string) string) decision {
	var d decision
	groups := desired(svc, pods, zone)
	for _, s := range have {
		if g := groups.find(s.AddressType, s.Ports); g != nil {
			g.have = append(g.have, s)
		} else {
			d.Remove = append(d.Remove, s)
		}
	}
	for _, g := range groups {
		d.merge(svc, g)
	}
	return d
}

type groupList []*group

func (l groupList) find(family discoveryv1.AddressType, ports []discoveryv1.EndpointPort) *group {
	want := sliceset.GroupKey(family, ports)
	for _, g := range l {
		if sliceset.GroupKey(g.family, g.ports) == want {
			return g
		}
	}
	return nil
}

// desired sorts the pods into groups. A family without an endpoint has one
// empty group, so that readers see a Service without endpoints rather than
// none.
func desired(svc *corev1.Service, pods []*corev1.Pod, zone func(string) string) groupList {
	var out groupList
	for _, family := range families(svc) {
		var of groupList
		for _, p := range pods {
			e, ok := endpoint(svc, p, family, zone)
			if !ok {
				continue
			}
			ports := endpointPorts(svc, p)
			g := of.find(family, ports)
			if g == nil {
				g = &group{family: family, ports: ports}
				of = append(of, g)
			}
			g.endpoints = append(g.endpoints, e)
		}
		if len(of) == 0 {
			of = groupList{{family: family}}
		}
		out = append(out, of...)
	}
	return out
}

func families(svc *corev1.Service) []discoveryv1.AddressType {
	if len(svc.Spec.IPFamilies) == 0 {
		if a, err := netip.ParseAddr(svc.Spec.ClusterIP); err == nil && a.Is6() {
			return []discoveryv1.AddressType{discoveryv1.AddressTypeIPv6}
		}
		return []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4}
	}
	var out []discoveryv1.AddressType
	for _, f := range svc.Spec.IPFamilies {
		out = append(out, discoveryv1.AddressType(f))
	}
	return out
}

// merge writes the endpoints of a group over its slices: those that stay keep
// their place, those that go leave it, new ones fill the gaps.
func (d *decision) merge(svc *corev1.Service, g *group) {
	want := map[string]discoveryv1.Endpoint{}
	for _, e := range g.endpoints {
		want[identity(e)] = e
	}
	kept := make([][]discoveryv1.Endpoint, len(g.have))
	for i, s := range g.have {
		for _, e := range s.Endpoints {
			if next, ok := want[identity(e)]; ok {
				kept[i] = append(kept[i], next)
				delete(want, identity(e))
			}
		}
	}
	var fresh []discoveryv1.Endpoint
	for _, e := range g.endpoints { // in order, not that of the map
		if _, ok := want[identity(e)]; ok {
			fresh = append(fresh, e)
		}
	}
	for _, i := range byUse(g.have, kept) {
		n := min(maxEndpoints-len(kept[i]), len(fresh))
		kept[i] = append(kept[i], fresh[:n]...)
		fresh = fresh[n:]
	}
	for i, s := range g.have {
		// The last slice stays, though empty, where there are no endpoints.
		if len(kept[i]) == 0 && (len(g.endpoints) > 0 || i < len(g.have)-1) {
			d.Remove = append(d.Remove, s)
			continue
		}
		d.change(svc, g, s, kept[i])
	}
	for len(fresh) > 0 || len(g.have) == 0 {
		n := min(maxEndpoints, len(fresh))
		s := newSlice(svc, g)
		s.Endpoints = fresh[:n:n]
		d.Create = append(d.Create, s)
		if fresh = fresh[n:]; len(fresh) == 0 {
			return
		}
	}
}

// byUse orders slices for filling: those that change anyway first, then the
// fullest.
func byUse(have []*discoveryv1.EndpointSlice, kept [][]discoveryv1.Endpoint) []int {
	order := make([]int, len(have))
	for i := range order {
		order[i] = i
	}
	unchanged := func(i int) int {
		if apiequality.Semantic.DeepEqual(have[i].Endpoints, kept[i]) {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(unchanged(a), unchanged(b)), cmp.Compare(len(kept[b]), len(kept[a])))
	})
	return order
}

// change updates a slice if it is not as it should be.
func (d *decision) change(svc *corev1.Service, g *group, s *discoveryv1.EndpointSlice, endpoints []discoveryv1.Endpoint) {
	next := s.DeepCopy()
	next.Endpoints = endpoints
	next.Ports = g.ports
	next.Labels = sliceLabels(svc)
	if !apiequality.Semantic.DeepEqual(s, next) {
		d.Update = append(d.Update, next)
	}
}

func newSlice(svc *corev1.Service, g *group) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       svc.Namespace,
			GenerateName:    svc.Name + "-",
			Labels:          sliceLabels(svc),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(svc, schema.ResourceOf(svc).GVK())},
		},
		AddressType: g.family,
		Ports:       g.ports,
	}
}

// sliceLabels are the Service's labels and ours.
func sliceLabels(svc *corev1.Service) map[string]string {
	out := map[string]string{}
	for k, v := range svc.Labels {
		if k != corev1.IsHeadlessService && k != discoveryv1.LabelServiceName && k != discoveryv1.LabelManagedBy {
			out[k] = v
		}
	}
	if svc.Spec.ClusterIP == corev1.ClusterIPNone {
		out[corev1.IsHeadlessService] = ""
	}
	out[discoveryv1.LabelServiceName] = svc.Name
	out[discoveryv1.LabelManagedBy] = string(ManagedBy)
	return out
}

// identity is what makes two endpoints the same one in two states.
func identity(e discoveryv1.Endpoint) string {
	uid := ""
	if e.TargetRef != nil {
		uid = string(e.TargetRef.UID)
	}
	return strings.Join(e.Addresses, ",") + "|" + uid
}
