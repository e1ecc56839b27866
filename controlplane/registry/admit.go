package registry

import (
	"context"

	"github.com/writ-os/writ/schema"
)

func (w *write) attributes(o, old schema.Object) *Attributes {
	return &Attributes{
		User: w.user, Verb: w.verb, Resource: w.r, Subresource: w.sub, Key: w.key,
		Object: o, Old: old, FieldManager: w.manager, DryRun: w.dryRun, Cluster: w.o,
	}
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
