package registry

import (
	"context"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind/core"
)

// steps are what the kinds need besides their judges: what the cluster gives out
// once, who writes, and by which version.
func (g *Registry) steps() map[*schema.Resource]*rule {
	return map[*schema.Resource]*rule{
		schema.ResourceFor[*corev1.Service](): {
			begin: func(ctx context.Context, w *write, o, old schema.Object) error {
				was, _ := old.(*corev1.Service)
				return g.beginService(ctx, w, o.(*corev1.Service), was)
			},
			allocate: func(w *write, o, old schema.Object) field.ErrorList {
				if was, ok := old.(*corev1.Service); o == nil && ok {
					keepClaims(w.o, nil, was)
				}
				return nil
			},
		},
		schema.ResourceFor[*corev1.Event](): {begin: beginEvent},
		schema.ResourceFor[*certificatesv1.CertificateSigningRequest](): {
			allocate: func(w *write, o, old schema.Object) field.ErrorList {
				if r, ok := o.(*certificatesv1.CertificateSigningRequest); ok && old == nil {
					setRequestor(r, w.user)
				}
				return nil
			},
		},
	}
}

// beginEvent holds events of events.k8s.io/v1 to what that version adds.
func beginEvent(_ context.Context, w *write, o, old schema.Object) error {
	e, ok := o.(*corev1.Event)
	if !ok {
		return nil
	}
	strict := w.req != nil && w.req.Group != ""
	errs := core.ReportErrors(e, strict)
	switch was, _ := old.(*corev1.Event); {
	case !strict:
	case was != nil:
		errs = append(errs, core.StrictEventUpdateErrors(e, was)...)
	default:
		errs = append(errs, core.StrictEventErrors(e)...)
	}
	named := w.rule.Kind
	if strict && old == nil {
		named = plainRule.Kind // the older version takes any name
	}
	all := named.MetaErrors(w.r, e)
	if len(errs) == 0 && (!strict || len(all) == 0) {
		return nil
	}
	all = append(all, core.EventErrors(e)...)
	return invalid(w.r, e.Name, append(all, errs...))
}

// setRequestor writes down who asks, whatever they said themselves.
func setRequestor(r *certificatesv1.CertificateSigningRequest, u user.Info) {
	r.Spec.Username, r.Spec.UID, r.Spec.Groups, r.Spec.Extra = u.GetName(), u.GetUID(), u.GetGroups(), nil
	for k, v := range u.GetExtra() {
		if r.Spec.Extra == nil {
			r.Spec.Extra = map[string]certificatesv1.ExtraValue{}
		}
		r.Spec.Extra[k] = v
	}
}
