package registry

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/schema"
)

var (
	ipAddresses  = schema.ResourceFor[*networkingv1.IPAddress]()
	serviceCIDRs = schema.ResourceFor[*networkingv1.ServiceCIDR]()
)

// Addresses of a range that are given on demand only: the kubernetes Service
// has the first, cluster DNS the tenth.
var reservedOffsets = []uint32{1, 10}

// addressClaimFields are the fields of a claim, of which the API server is the
// manager.
const addressClaimFields = `{"f:metadata":{"f:labels":{".":{},"f:ipaddress.kubernetes.io/ip-family":{},"f:ipaddress.kubernetes.io/managed-by":{}}},` +
	`"f:spec":{"f:parentRef":{".":{},"f:name":{},"f:namespace":{},"f:resource":{}}}}`

func addressKey(ip netip.Addr) schema.Key { return schema.Key{Name: ip.String()} }

// addressOf is the ClusterIP of a Service that has one.
func addressOf(s *corev1.Service) (netip.Addr, bool) {
	if s == nil || s.Spec.Type == corev1.ServiceTypeExternalName {
		return netip.Addr{}, false
	}
	ip, err := netip.ParseAddr(s.Spec.ClusterIP)
	return ip, err == nil // none of "" and None
}

// addressClaim is the object by which a Service has an address.
func addressClaim(ip netip.Addr, s *corev1.Service) *networkingv1.IPAddress {
	family := corev1.IPv4Protocol
	if ip.Is6() {
		family = corev1.IPv6Protocol
	}
	o := &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{
			Name:   ip.String(),
			Labels: map[string]string{networkingv1.LabelIPAddressFamily: string(family), networkingv1.LabelManagedBy: "ipallocator.k8s.io"},
		},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: s.Namespace, Name: s.Name}},
	}
	o.SetGroupVersionKind(ipAddresses.GVK())
	fillMeta(o)
	at := o.CreationTimestamp
	o.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "kube-apiserver", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: ipAddresses.APIVersion(), Time: &at,
		FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(addressClaimFields)},
	}}
	return o
}

// ranges are those of which addresses are given out: the cluster's own, and what
// ready ServiceCIDRs add to it.
func (a *allocator) ranges(o *overlay) []netip.Prefix {
	out := []netip.Prefix{a.cidr}
	for it := range o.base.Snapshot(serviceCIDRs).All() {
		c := it.Object.(*networkingv1.ServiceCIDR)
		if c.DeletionTimestamp != nil || !cidrReady(c) {
			continue
		}
		for _, s := range c.Spec.CIDRs {
			if p, err := netip.ParsePrefix(s); err == nil && p.Addr().Is4() && p.Masked() != a.cidr {
				out = append(out, p.Masked())
			}
		}
	}
	return out
}

func cidrReady(c *networkingv1.ServiceCIDR) bool {
	for _, cond := range c.Status.Conditions {
		if cond.Type == networkingv1.ServiceCIDRConditionReady {
			return cond.Status == metav1.ConditionTrue
		}
	}
	return false
}

// named says why an address that a Service asks for cannot be given out.
func (a *allocator) named(o *overlay, ip netip.Addr) error {
	for _, p := range a.ranges(o) {
		if !p.Contains(ip) {
			continue
		}
		switch size := hosts(p); {
		case ip == offset(p, 0) || ip == offset(p, size-1): // the network's own, and the broadcast's
			return fmt.Errorf("the provided IP (%v) is not in the valid range. The range of valid IPs is %v", ip, p)
		case o.get(ipAddresses, addressKey(ip)) != nil:
			return errIPTaken
		}
		return nil
	}
	return errNoNetwork
}

// next finds an address that nobody has. It takes from the upper part of a range
// first: the lower is for Services that name their address, so that these seldom
// collide (KEP-3070).
func (a *allocator) next(o *overlay) (netip.Addr, error) {
	for _, p := range a.ranges(o) {
		size := hosts(p)
		band := staticBand(size)
		if ip, ok := a.between(o, p, max(band, 1), size-1); ok {
			return ip, nil
		}
		if ip, ok := a.between(o, p, 1, band); ok {
			return ip, nil
		}
	}
	return netip.Addr{}, errRangesFull
}

func (a *allocator) between(o *overlay, p netip.Prefix, from, to uint32) (netip.Addr, bool) {
	if from >= to {
		return netip.Addr{}, false
	}
	n := to - from
	for i, start := uint32(0), rand.Uint32N(n); i < n; i++ {
		off := from + (start+i)%n
		if off == reservedOffsets[0] || off == reservedOffsets[1] {
			continue
		}
		ip := offset(p, off)
		if o.get(ipAddresses, addressKey(ip)) == nil && a.choose(&o.claims, ip.String()) {
			return ip, true
		}
	}
	return netip.Addr{}, false
}

// staticBand is how many addresses at the beginning of a range are given out
// last: a sixteenth, at least 16 and at most 256.
func staticBand(size uint32) uint32 {
	if size <= 16 {
		return 0
	}
	return min(max(16, size/16), 256)
}

// hosts is the size of a range. Nobody needs one of more than 2^31.
func hosts(p netip.Prefix) uint32 { return uint32(1) << min(32-p.Bits(), 31) }

// offset is the address at an offset into a range.
func offset(p netip.Prefix, off uint32) netip.Addr {
	b := p.Addr().As4()
	v := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	v += off
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)})
}
