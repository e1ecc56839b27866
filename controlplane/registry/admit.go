package registry

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// attributes describe a write as admission sees it: a patch is the update, or
// by apply the create, that it comes to.
func (w *write) attributes(o, old schema.Object) *Attributes {
	return &Attributes{
		User: w.user, Verb: w.verb, Resource: w.req.Stored(), Request: w.req, Subresource: w.sub, Key: w.key,
		Object: o, Old: old, FieldManager: w.manager, DryRun: w.dryRun, Options: w.options(), Cluster: w.o,
	}
}

// options are those of the request, in the form that webhooks get.
func (w *write) options() runtime.Object {
	gvk := metav1.SchemeGroupVersion
	meta := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: gvk.String(), Kind: kind}
	}
	var dry []string
	if w.dryRun {
		dry = []string{metav1.DryRunAll}
	}
	switch w.verb {
	case "create":
		return &metav1.CreateOptions{TypeMeta: meta("CreateOptions"), DryRun: dry, FieldManager: w.asked.FieldManager, FieldValidation: w.asked.FieldValidation}
	case "update":
		return &metav1.UpdateOptions{TypeMeta: meta("UpdateOptions"), DryRun: dry, FieldManager: w.asked.FieldManager, FieldValidation: w.asked.FieldValidation}
	case "delete":
		o := &metav1.DeleteOptions{TypeMeta: meta("DeleteOptions"), DryRun: dry}
		if d := w.deletion; d != nil {
			o.GracePeriodSeconds, o.Preconditions = d.GracePeriodSeconds, d.Preconditions
			if d.Propagation != "" {
				p := d.Propagation
				o.PropagationPolicy = &p
			}
		}
		return o
	}
	return nil
}

// AdmitConnect asks admission for a connection to an object: exec, attach,
// portforward or proxy, with its options (*corev1.PodExecOptions and its like).
func (g *Registry) AdmitConnect(ctx context.Context, r *schema.Resource, key schema.Key, sub string, options runtime.Object) error {
	w := g.newWrite(ctx, newOverlay(g.store.View()), "connect", r, sub, key, client.WriteOptions{})
	a := w.attributes(nil, nil)
	a.FieldManager, a.Options = "", options
	if err := g.mutate(ctx, a); err != nil {
		return err
	}
	return g.validate(ctx, a)
}

func (g *Registry) chain() []Admission {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.admission
}

func handles(p Admission, a *Attributes) bool {
	h, ok := p.(Handler)
	return !ok || h.Handles(a.Verb, a.Resource, a.Subresource)
}

// mutate lets admission change the object.
func (g *Registry) mutate(ctx context.Context, a *Attributes) error {
	for _, p := range g.chain() {
		if handles(p, a) {
			if err := p.Mutate(ctx, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// validate lets admission refuse the object.
func (g *Registry) validate(ctx context.Context, a *Attributes) error {
	for _, p := range g.chain() {
		if handles(p, a) {
			if err := p.Validate(ctx, a); err != nil {
				return err
			}
		}
	}
	return nil
}
