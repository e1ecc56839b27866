package network

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind"
	"github.com/writ-os/writ/schema/kind/core"
	"github.com/writ-os/writ/schema/kind/valid"
)

// EndpointSlice is the judge of its kind.
var EndpointSlice = &kind.Kind{
	Resource:      schema.ResourceFor[*discoveryv1.EndpointSlice](),
	PrepareCreate: func(o schema.Object) { o.SetGeneration(1) },
	PrepareUpdate: func(o, old schema.Object) {
		s, was := o.(*discoveryv1.EndpointSlice), old.(*discoveryv1.EndpointSlice)
		if !apiequality.Semantic.DeepEqual(s.Endpoints, was.Endpoints) || !apiequality.Semantic.DeepEqual(s.Ports, was.Ports) ||
			!apiequality.Semantic.DeepEqual(s.Labels, was.Labels) {
			s.Generation = was.Generation + 1
		}
	},
	OwnSchema: true, OwnImmutable: true,
	ValidateCreate: func(o schema.Object) field.ErrorList { return sliceErrors(o.(*discoveryv1.EndpointSlice), nil) },
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		is, was := o.(*discoveryv1.EndpointSlice), old.(*discoveryv1.EndpointSlice)
		return append(sliceErrors(is, was), valid.Keep(field.NewPath("addressType"), is.AddressType, was.AddressType)...)
	},
}

// Bounds of an endpoint slice.
const (
	mostSlicePorts     = 20000
	mostSliceEndpoints = 1000
	mostSliceAddresses = 100
	mostSliceTopology  = 16
	mostSliceHints     = 8
)

func sliceErrors(s, old *discoveryv1.EndpointSlice) field.ErrorList {
	errs := valid.Word(s.AddressType, field.NewPath("addressType"), discoveryv1.AddressTypeFQDN, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6)
	errs = append(errs, slicePortErrors(s.Ports, field.NewPath("ports"))...)
	at := field.NewPath("endpoints")
	var more field.ErrorList
	if len(s.Endpoints) > mostSliceEndpoints {
		more = append(more, field.TooMany(at, len(s.Endpoints), mostSliceEndpoints))
	} else {
		for i := range s.Endpoints {
			more = append(more, sliceEndpointErrors(&s.Endpoints[i], s.AddressType, at.Index(i))...)
		}
	}
	if len(more) > 0 && old != nil && apiequality.Semantic.DeepEqual(s.Endpoints, old.Endpoints) {
		return errs // an older release has let them in
	}
	return append(errs, more...)
}

func slicePortErrors(ports []discoveryv1.EndpointPort, at *field.Path) field.ErrorList {
	if len(ports) > mostSlicePorts {
		return field.ErrorList{field.TooMany(at, len(ports), mostSlicePorts)}
	}
	var errs field.ErrorList
	seen := map[string]bool{}
	for i := range ports {
		p, at := &ports[i], at.Index(i)
		name := valid.Deref(p.Name)
		if name != "" {
			errs = append(errs, valid.InvalidAll(at.Child("name"), name, validation.IsDNS1123Label(name))...)
		}
		if seen[name] {
			errs = append(errs, field.Duplicate(at.Child("name"), name))
		}
		seen[name] = true
		errs = append(errs, valid.Word(valid.Deref(p.Protocol), at.Child("protocol"), corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)...)
		if p.AppProtocol != nil {
			errs = append(errs, valid.InvalidAll(at.Child("appProtocol"), *p.AppProtocol, content.IsLabelKey(*p.AppProtocol))...)
		}
	}
	return errs
}

func sliceEndpointErrors(e *discoveryv1.Endpoint, kind discoveryv1.AddressType, at *field.Path) field.ErrorList {
	addresses := at.Child("addresses")
	var errs field.ErrorList
	if n := len(e.Addresses); n == 0 {
		errs = append(errs, field.Required(addresses, "must contain at least 1 address"))
	} else if n > mostSliceAddresses {
		errs = append(errs, field.TooMany(addresses, n, mostSliceAddresses))
	}
	for i, a := range e.Addresses {
		errs = append(errs, sliceAddressErrors(a, kind, addresses, addresses.Index(i))...)
	}
	if e.NodeName != nil {
		errs = append(errs, valid.InvalidAll(at.Child("nodeName"), *e.NodeName, validation.IsDNS1123Subdomain(*e.NodeName))...)
	}
	topology := at.Child("deprecatedTopology")
	if n := len(e.DeprecatedTopology); n > mostSliceTopology {
		errs = append(errs, field.TooMany(topology, n, mostSliceTopology))
	}
	errs = append(errs, metav1validation.ValidateLabels(e.DeprecatedTopology, topology)...)
	if e.Hostname != nil {
		errs = append(errs, valid.InvalidAll(at.Child("hostname"), *e.Hostname, validation.IsDNS1123Label(*e.Hostname))...)
	}
	if e.Hints != nil {
		errs = append(errs, hintsErrors(e.Hints, at.Child("hints"))...)
	}
	return errs
}

func sliceAddressErrors(a string, kind discoveryv1.AddressType, list, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch kind {
	case discoveryv1.AddressTypeFQDN:
		return validation.IsFullyQualifiedDomainName(at, a)
	case discoveryv1.AddressTypeIPv4:
		if errs = validation.IsValidIPForLegacyField(at, a, false, nil); len(errs) == 0 && !netutils.IsIPv4String(a) {
			errs = append(errs, field.Invalid(list, a, "must be an IPv4 address"))
		}
	case discoveryv1.AddressTypeIPv6:
		if errs = validation.IsValidIP(at, a); len(errs) == 0 && !netutils.IsIPv6String(a) {
			errs = append(errs, field.Invalid(list, a, "must be an IPv6 address"))
		}
	default: // it is an error of its own
		return nil
	}
	if netutils.ParseIPSloppy(a) == nil {
		return errs
	}
	return append(errs, core.EndpointIPErrors(a, at)...)
}

func hintsErrors(h *discoveryv1.EndpointHints, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := func(list []string, at *field.Path, check func(string) []string) bool {
		if len(list) > mostSliceHints {
			errs = append(errs, field.TooMany(at, len(list), mostSliceHints))
			return false
		}
		for i, name := range list {
			at := at.Index(i).Child("name")
			if slices.Contains(list[:i], name) {
				errs = append(errs, field.Duplicate(at, name))
			}
			errs = append(errs, valid.InvalidAll(at, name, check(name))...)
		}
		return true
	}
	var zones, nodes []string
	for _, z := range h.ForZones {
		zones = append(zones, z.Name)
	}
	for _, n := range h.ForNodes {
		nodes = append(nodes, n.Name)
	}
	if names(zones, at.Child("forZones"), validation.IsValidLabelValue) {
		names(nodes, at.Child("forNodes"), validation.IsDNS1123Subdomain)
	}
	return errs
}
