package core

import (
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind"
	"github.com/writ-os/writ/schema/kind/valid"
)

// Endpoints is the judge of its kind.
var Endpoints = &kind.Kind{
	Resource:       schema.ResourceFor[*corev1.Endpoints](),
	CreateOnUpdate: true, OwnSchema: true,
	ValidateCreate: func(o schema.Object) field.ErrorList { return subsetErrors(o.(*corev1.Endpoints).Subsets) },
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		is, was := o.(*corev1.Endpoints).Subsets, old.(*corev1.Endpoints).Subsets
		errs := subsetErrors(is)
		if len(errs) > 0 && apiequality.Semantic.DeepEqual(is, was) { // an older release has let it in
			return nil
		}
		return errs
	},
}

func subsetErrors(subsets []corev1.EndpointSubset) field.ErrorList {
	var errs field.ErrorList
	for i := range subsets {
		s, at := &subsets[i], field.NewPath("subsets").Index(i)
		if len(s.Addresses) == 0 && len(s.NotReadyAddresses) == 0 {
			errs = append(errs, field.Required(at, "must specify `addresses` or `notReadyAddresses`"))
		}
		for j := range s.Addresses {
			errs = append(errs, endpointAddressErrors(&s.Addresses[j], at.Child("addresses").Index(j))...)
		}
		for j := range s.NotReadyAddresses {
			errs = append(errs, endpointAddressErrors(&s.NotReadyAddresses[j], at.Child("notReadyAddresses").Index(j))...)
		}
		for j := range s.Ports {
			errs = append(errs, endpointPortErrors(&s.Ports[j], len(s.Ports) > 1, at.Child("ports").Index(j))...)
		}
	}
	return errs
}

func endpointAddressErrors(a *corev1.EndpointAddress, at *field.Path) field.ErrorList {
	errs := validation.IsValidIPForLegacyField(at.Child("ip"), a.IP, false, nil)
	if a.Hostname != "" {
		errs = append(errs, valid.InvalidAll(at.Child("hostname"), a.Hostname, validation.IsDNS1123Label(a.Hostname))...)
	}
	if a.NodeName != nil {
		errs = append(errs, valid.InvalidAll(at.Child("nodeName"), *a.NodeName, validation.IsDNS1123Subdomain(*a.NodeName))...)
	}
	return append(errs, EndpointIPErrors(a.IP, at.Child("ip"))...)
}

func endpointPortErrors(p *corev1.EndpointPort, named bool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case p.Name != "":
		errs = valid.InvalidAll(at.Child("name"), p.Name, validation.IsDNS1123Label(p.Name))
	case named:
		errs = append(errs, field.Required(at.Child("name"), ""))
	}
	errs = append(errs, valid.InvalidAll(at.Child("port"), p.Port, validation.IsValidPortNum(int(p.Port)))...)
	errs = append(errs, valid.Word(p.Protocol, at.Child("protocol"), corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)...)
	if p.AppProtocol != nil {
		errs = append(errs, valid.InvalidAll(at.Child("appProtocol"), *p.AppProtocol, content.IsLabelKey(*p.AppProtocol))...)
	}
	return errs
}
