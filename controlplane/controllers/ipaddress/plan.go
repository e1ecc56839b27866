package ipaddress

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/schema"
)

const (
	// managedBy is the value of LabelManagedBy of the allocator's IPAddresses.
	managedBy = "ipallocator.k8s.io"
	// unborn is how long an IPAddress may be without its Service, and young how
	// long it may be newer than what its Service says. Upstream's.
	unborn = time.Minute
	young  = 5 * time.Second
)

// wanted are the addresses of a Service for which there must be IPAddresses.
func wanted(s *corev1.Service) []netip.Addr {
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	texts := s.Spec.ClusterIPs
	if len(texts) == 0 {
		texts = []string{s.Spec.ClusterIP}
	}
	var out []netip.Addr
	for _, text := range texts {
		if ip, err := netip.ParseAddr(text); err == nil { // none of "" and None
			out = append(out, ip)
		}
	}
	return out
}

// plan is what to do about one address of a Service.
type plan struct {
	remove, create  bool
	reason, message string // of the event; reason "": none
}

// check compares an address of a Service with its IPAddress; nil when there is
// none. other finds Services.
func check(s *corev1.Service, ip netip.Addr, have *networkingv1.IPAddress, cidrs []*networkingv1.ServiceCIDR, other func(schema.Key) *corev1.Service) plan {
	family, wrong := familyOf(ip), plan{true, true, "ClusterIPNotAllocated",
		fmt.Sprintf("the ClusterIP [%v]: %s for Service %s/%s has a wrong reference; repairing", familyOf(ip), ip, s.Namespace, s.Name)}
	switch {
	case len(cidrs) > 0 && !inRange(ip, cidrs):
		return plan{reason: "ClusterIPOutOfRange",
			message: fmt.Sprintf("Cluster IP [%v]: %s is not within any configured Service CIDR; please recreate service", family, ip)}
	case have == nil:
		return plan{create: true, reason: "ClusterIPNotAllocated", message: fmt.Sprintf("Cluster IP [%v]: %s is not allocated; repairing", family, ip)}
	case !ofService(have):
		return wrong
	}
	if ref := have.Spec.ParentRef; ref.Namespace != s.Namespace || ref.Name != s.Name {
		o := other(schema.Key{Namespace: ref.Namespace, Name: ref.Name})
		switch {
		case o == nil:
			return wrong
		case slices.Contains(wanted(o), ip): // the other has it: taking it away would go to and fro
			return plan{reason: "ClusterIPAlreadyAllocated",
				message: fmt.Sprintf("Cluster IP [%v]:%s was assigned to multiple services; please recreate service", family, ip)}
		}
		return wrong
	}
	if have.Labels[networkingv1.LabelManagedBy] != managedBy || have.Labels[networkingv1.LabelIPAddressFamily] != string(family) {
		return plan{remove: true, create: true}
	}
	return plan{}
}

// leaked says why an IPAddress of the allocator's must go, or how long to wait
// before that is clear. s is the Service that it names; nil when there is none.
func leaked(a *networkingv1.IPAddress, s *corev1.Service, now time.Time) (wait time.Duration, reason, message string) {
	age := now.Sub(a.CreationTimestamp.Time)
	switch {
	case !ofService(a):
		return 0, "IPAddressNotAllocated", fmt.Sprintf("IPAddress %s appears to have been modified, not referencing a Service %v: cleaning up", a.Name, a.Spec.ParentRef)
	case s == nil && age < unborn:
		return unborn - age, "", ""
	case s == nil:
		return 0, "IPAddressNotAllocated", fmt.Sprintf("IPAddress: %s for Service %s/%s appears to have leaked: cleaning up", a.Name, a.Spec.ParentRef.Namespace, a.Spec.ParentRef.Name)
	case slices.ContainsFunc(wanted(s), func(ip netip.Addr) bool { return ip.String() == a.Name }):
		return 0, "", ""
	case s.Spec.Type == corev1.ServiceTypeExternalName && age < unborn:
		return unborn - age, "", ""
	case a.CreationTimestamp.After(s.CreationTimestamp.Time) && age < young:
		return young, "", ""
	}
	return 0, "IPAddressWrongReference", fmt.Sprintf("IPAddress: %s for Service %s/%s has a wrong reference; cleaning up", a.Name, s.Namespace, s.Name)
}

func ofService(a *networkingv1.IPAddress) bool {
	ref := a.Spec.ParentRef
	return ref != nil && ref.Group == "" && ref.Resource == "services"
}

func inRange(ip netip.Addr, cidrs []*networkingv1.ServiceCIDR) bool {
	for _, c := range cidrs {
		for _, text := range c.Spec.CIDRs {
			if p, err := netip.ParsePrefix(text); err == nil && p.Contains(ip) {
				return true
			}
		}
	}
	return false
}

func familyOf(ip netip.Addr) corev1.IPFamily {
	if ip.Is6() {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

func newAddress(ip netip.Addr, s *corev1.Service) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: ip.String(), Labels: map[string]string{
			networkingv1.LabelIPAddressFamily: string(familyOf(ip)), networkingv1.LabelManagedBy: managedBy,
		}},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: s.Namespace, Name: s.Name}},
	}
}
