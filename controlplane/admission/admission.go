package admission

import (
	"context"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
)

// Config is what the plugins need from outside.
type Config struct {
	// Cache holds the inventories, which the guard follows.
	Cache client.Cache
	// Roles tells who holds which rights, for Escalation. nil leaves it out.
	Roles Roles
}

// Admission is the chain of all plugins.
type Admission struct {
	// Guard is the write guard, the first of the chain.
	Guard *Guard
	rest  []registry.Admission
}

// New returns the chain; it starts nothing.
func New(cfg Config) *Admission {
	a := &Admission{Guard: NewGuard(cfg.Cache)}
	a.rest = []registry.Admission{
		&NamespaceLifecycle{},
		&NodeRestriction{},
		&TaintNodes{},
		&ServiceAccount{},
		&Priority{},
		&Tolerations{},
	}
	if cfg.Roles != nil {
		a.rest = append(a.rest, &Escalation{Roles: cfg.Roles})
	}
	return a
}

// Plugins returns the chain in its order, for registry.SetAdmission.
func (a *Admission) Plugins() []registry.Admission {
	return append([]registry.Admission{a.Guard}, a.rest...)
}

// Run follows the inventories until ctx ends. Until it has read them, writes
// of people wait.
func (a *Admission) Run(ctx context.Context) error { return a.Guard.Run(ctx) }

// mutates is embedded by plugins that only mutate.
type mutates struct{}

// Validate implements registry.Admission.
func (mutates) Validate(context.Context, *registry.Attributes) error { return nil }

// validates is embedded by plugins that only validate.
type validates struct{}

// Mutate implements registry.Admission.
func (validates) Mutate(context.Context, *registry.Attributes) error { return nil }

// is says whether a resource is of a group and has a name.
func is(r *schema.Resource, group, plural string) bool { return r.Group == group && r.Plural == plural }

// nameOf returns the name that errors give an object, which may have only a
// prefix yet.
func nameOf(a *registry.Attributes) string {
	if a.Key.Name != "" {
		return a.Key.Name
	}
	if a.Object == nil {
		return ""
	}
	if n := a.Object.GetName(); n != "" {
		return n
	}
	return a.Object.GetGenerateName()
}
