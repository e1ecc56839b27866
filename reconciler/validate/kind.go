package validate

import (
	"cmp"
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/defaults"
	"github.com/writ-os/writ/schema/kind"
	"github.com/writ-os/writ/schema/kind/core"
	"github.com/writ-os/writ/schema/kind/kinds"
)

// plain judges kinds that have nothing to say of themselves: by their metadata.
var plain = &kind.Kind{}

// kindErrors are what the API would answer when a manifest is created: the
// judge of the kind is the same. It takes over o.
func kindErrors(m *render.Manifest, o schema.Object) field.ErrorList {
	defaults.Apply(o)
	r := m.Resource.Stored()
	if r != m.Resource {
		out, err := r.Convert(context.Background(), []schema.Object{o})
		if err != nil {
			return field.ErrorList{field.Invalid(nil, m.Object(), err.Error())}
		}
		o = out[0]
	}
	k := kinds.Of(r)
	if k == nil {
		k = plain
	}
	asCreated(m, k, o)
	if k.Complete != nil {
		if errs := k.Complete(o, nil); len(errs) > 0 {
			return errs
		}
	}
	k.Begin(r, o)
	return k.CreateErrors(r, o)
}

// asCreated gives an object what the API and admission give to a new one.
func asCreated(m *render.Manifest, k *kind.Kind, o schema.Object) {
	if m.Resource.Namespaced && o.GetNamespace() == "" {
		o.SetNamespace(m.Key.Namespace)
	}
	o.SetUID("00000000-0000-0000-0000-000000000000") // of any: a Job selects by it
	if k.Normalize != nil {
		k.Normalize(o)
	}
	defaults.Apply(o)
	switch o := o.(type) {
	case *corev1.Pod:
		o.Spec.ServiceAccountName = cmp.Or(o.Spec.ServiceAccountName, "default")
	case *corev1.Service:
		if core.NeedsHealthPort(o) {
			o.Spec.HealthCheckNodePort = cmp.Or(o.Spec.HealthCheckNodePort, 30000) // as it is given out
		}
	}
}
