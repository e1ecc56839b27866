package servicecidr

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/writ-os/writ/schema"
)

// managedBy is the value of LabelManagedBy of the IPAddresses that stand for
// addresses of Services.
const managedBy = "ipallocator.k8s.io"

// orphans says whether an address in use would be in no ServiceCIDR without
// the one that is going.
func orphans(going *networkingv1.ServiceCIDR, all []*networkingv1.ServiceCIDR, used []netip.Addr) bool {
	var rest []netip.Prefix
	for _, s := range all {
		if s.Name != going.Name {
			rest = append(rest, prefixes(s)...)
		}
	}
	mine := prefixes(going)
	if covered(mine, rest) {
		return false
	}
	for _, a := range used {
		holds := func(p netip.Prefix) bool { return contains(p, a) }
		if slices.ContainsFunc(mine, holds) && !slices.ContainsFunc(rest, holds) {
			return true
		}
	}
	return false
}

// covered says whether each range is within another.
func covered(ranges, by []netip.Prefix) bool {
	for _, r := range ranges {
		if !slices.ContainsFunc(by, func(p netip.Prefix) bool { return p.Overlaps(r) && p.Bits() <= r.Bits() }) {
			return false
		}
	}
	return true
}

func prefixes(s *networkingv1.ServiceCIDR) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range s.Spec.CIDRs {
		if p, err := netip.ParsePrefix(text); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// contains says whether an address may be given from a range: not its first
// one, nor in IPv4 its last.
func contains(p netip.Prefix, a netip.Addr) bool {
	if !p.Contains(a) || p.Masked().Addr() == a {
		return false
	}
	return !a.Is4() || p.Contains(a.Next())
}

// addresses are those that an object holds: a Service its own, an IPAddress
// that of its name.
func addresses(o schema.Object) []netip.Addr {
	var texts []string
	switch o := o.(type) {
	case *corev1.Service:
		if o != nil && o.Spec.Type != corev1.ServiceTypeExternalName {
			texts = o.Spec.ClusterIPs
			if len(texts) == 0 {
				texts = []string{o.Spec.ClusterIP}
			}
		}
	case *networkingv1.IPAddress:
		if o != nil && o.Labels[networkingv1.LabelManagedBy] == managedBy {
			texts = []string{o.Name}
		}
	}
	var out []netip.Addr
	for _, text := range texts {
		if a, err := netip.ParseAddr(text); err == nil { // "None" is none
			out = append(out, a)
		}
	}
	return out
}
