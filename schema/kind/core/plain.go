package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind"
	"github.com/writ-os/writ/schema/kind/valid"
)

// Node is the judge of its kind.
var Node = &kind.Kind{
	Resource:  schema.ResourceFor[*corev1.Node](),
	OwnSchema: true, OwnImmutable: true,
	Normalize:      func(o schema.Object) { nodeRanges(o.(*corev1.Node)) },
	ValidateCreate: func(o schema.Object) field.ErrorList { return NodeErrors(o.(*corev1.Node)) },
	ValidateUpdate: nodeUpdate,
	ValidateDoor:   func(_ string, o, old schema.Object) field.ErrorList { return nodeUpdate(o, old) },
}

// ResourceQuota is the judge of its kind.
var ResourceQuota = &kind.Kind{
	Resource:  schema.ResourceFor[*corev1.ResourceQuota](),
	OwnSchema: true, OwnImmutable: true,
	Validate: func(o schema.Object) field.ErrorList { return QuotaErrors(o.(*corev1.ResourceQuota)) },
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		return QuotaUpdateErrors(o.(*corev1.ResourceQuota), old.(*corev1.ResourceQuota))
	},
	ValidateDoor: func(_ string, o, _ schema.Object) field.ErrorList {
		return QuotaStatusErrors(o.(*corev1.ResourceQuota))
	},
}

// Event is the judge of its kind.
var Event = &kind.Kind{
	Resource:       schema.ResourceFor[*corev1.Event](),
	CreateOnUpdate: true, Name: valid.PathSegment, Validate: EventErrors,
}

// LimitRange is the judge of its kind.
var LimitRange = &kind.Kind{
	Resource:       schema.ResourceFor[*corev1.LimitRange](),
	CreateOnUpdate: true, OwnSchema: true,
	Validate: func(o schema.Object) field.ErrorList { return LimitRangeErrors(o.(*corev1.LimitRange)) },
}

func nodeUpdate(o, old schema.Object) field.ErrorList {
	return NodeUpdateErrors(o.(*corev1.Node), old.(*corev1.Node))
}

// nodeRanges makes the one range of a node the first of all of them, as it is
// in upstream's internal form.
func nodeRanges(n *corev1.Node) {
	switch s := &n.Spec; {
	case len(s.PodCIDRs) == 0 && s.PodCIDR != "":
		s.PodCIDRs = []string{s.PodCIDR}
	case len(s.PodCIDRs) > 0 && s.PodCIDR == "":
		s.PodCIDR = s.PodCIDRs[0]
	}
}

// EventErrors: an event lives where its object does.
func EventErrors(o schema.Object) field.ErrorList {
	e := o.(*corev1.Event)
	in := e.InvolvedObject.Namespace
	if in == "" && e.Namespace != "default" && e.Namespace != "kube-system" || in != "" && in != e.Namespace {
		return field.ErrorList{field.Invalid(field.NewPath("involvedObject", "namespace"), in, "does not match event.namespace")}
	}
	return nil
}
