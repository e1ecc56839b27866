package network

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind"
	"github.com/writ-os/writ/schema/kind/valid"
)

// NetworkPolicy is the judge of its kind.
var NetworkPolicy = &kind.Kind{
	Resource:   schema.ResourceFor[*networkingv1.NetworkPolicy](),
	Generation: true, OwnSchema: true,
	ValidateCreate: func(o schema.Object) field.ErrorList {
		return networkPolicyErrors(&o.(*networkingv1.NetworkPolicy).Spec, nil)
	},
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		return networkPolicyErrors(&o.(*networkingv1.NetworkPolicy).Spec, policyRanges(&old.(*networkingv1.NetworkPolicy).Spec))
	},
}

// policyRanges are the ranges of a policy: those that there were stay valid.
func policyRanges(s *networkingv1.NetworkPolicySpec) []string {
	var out []string
	add := func(peers []networkingv1.NetworkPolicyPeer) {
		for _, p := range peers {
			if p.IPBlock != nil {
				out = append(append(out, p.IPBlock.CIDR), p.IPBlock.Except...)
			}
		}
	}
	for _, r := range s.Ingress {
		add(r.From)
	}
	for _, r := range s.Egress {
		add(r.To)
	}
	return out
}

func networkPolicyErrors(s *networkingv1.NetworkPolicySpec, had []string) field.ErrorList {
	at := field.NewPath("spec")
	errs := valid.LabelSelector(&s.PodSelector, at.Child("podSelector"))
	check := func(ports []networkingv1.NetworkPolicyPort, peers []networkingv1.NetworkPolicyPeer, at *field.Path, direction string) {
		for i := range ports {
			errs = append(errs, policyPortErrors(&ports[i], at.Child("ports").Index(i))...)
		}
		for i := range peers {
			errs = append(errs, policyPeerErrors(&peers[i], had, at.Child(direction).Index(i))...)
		}
	}
	for i := range s.Ingress {
		check(s.Ingress[i].Ports, s.Ingress[i].From, at.Child("ingress").Index(i), "from")
	}
	for i := range s.Egress {
		check(s.Egress[i].Ports, s.Egress[i].To, at.Child("egress").Index(i), "to")
	}
	if len(s.PolicyTypes) > 2 {
		return append(errs, field.Invalid(at.Child("policyTypes"), s.PolicyTypes, "may not specify more than two policyTypes"))
	}
	for i := range s.PolicyTypes {
		errs = append(errs, valid.OneOf(&s.PolicyTypes[i], at.Child("policyTypes").Index(i), "Ingress", "Egress")...)
	}
	return errs
}

func policyPortErrors(p *networkingv1.NetworkPolicyPort, at *field.Path) field.ErrorList {
	errs := valid.OneOf(p.Protocol, at.Child("protocol"), "TCP", "UDP", "SCTP")
	end := at.Child("endPort")
	switch {
	case p.Port == nil:
		if p.EndPort != nil {
			errs = append(errs, field.Invalid(end, *p.EndPort, "may not be specified when `port` is not specified"))
		}
	case p.Port.Type == intstr.Int:
		errs = append(errs, valid.InvalidAll(at.Child("port"), p.Port.IntVal, validation.IsValidPortNum(int(p.Port.IntVal)))...)
		if p.EndPort != nil {
			if *p.EndPort < p.Port.IntVal {
				errs = append(errs, field.Invalid(end, p.Port.IntVal, "must be greater than or equal to `port`"))
			}
			errs = append(errs, valid.InvalidAll(end, *p.EndPort, validation.IsValidPortNum(int(*p.EndPort)))...)
		}
	default:
		if p.EndPort != nil {
			errs = append(errs, field.Invalid(end, *p.EndPort, "may not be specified when `port` is non-numeric"))
		}
		errs = append(errs, valid.InvalidAll(at.Child("port"), p.Port.StrVal, validation.IsValidPortName(p.Port.StrVal))...)
	}
	return errs
}

func policyPeerErrors(p *networkingv1.NetworkPolicyPeer, had []string, at *field.Path) field.ErrorList {
	errs := valid.LabelSelector(p.PodSelector, at.Child("podSelector"))
	errs = append(errs, valid.LabelSelector(p.NamespaceSelector, at.Child("namespaceSelector"))...)
	selects := p.PodSelector != nil || p.NamespaceSelector != nil
	if p.IPBlock != nil {
		errs = append(errs, blockErrors(p.IPBlock, had, at.Child("ipBlock"))...)
	}
	switch {
	case p.IPBlock == nil && !selects:
		errs = append(errs, field.Required(at, "must specify a peer"))
	case p.IPBlock != nil && selects:
		errs = append(errs, field.Forbidden(at, "may not specify both ipBlock and another peer"))
	}
	return errs
}

func blockErrors(b *networkingv1.IPBlock, had []string, at *field.Path) field.ErrorList {
	if b.CIDR == "" {
		return field.ErrorList{field.Required(at.Child("cidr"), "")}
	}
	errs := validation.IsValidCIDRForLegacyField(at.Child("cidr"), b.CIDR, false, had)
	_, whole, err := netutils.ParseCIDRSloppy(b.CIDR)
	if err != nil {
		return errs
	}
	size, _ := whole.Mask.Size()
	for i, s := range b.Except {
		at := at.Child("except").Index(i)
		errs = append(errs, validation.IsValidCIDRForLegacyField(at, s, false, had)...)
		_, part, err := netutils.ParseCIDRSloppy(s)
		if err != nil {
			continue
		}
		if n, _ := part.Mask.Size(); !whole.Contains(part.IP) || size >= n {
			errs = append(errs, field.Invalid(at, s, "must be a strict subset of `cidr`"))
		}
	}
	return errs
}
