package admission

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/writ-os/writ/controlplane/admission/podsecurity"
	"github.com/writ-os/writ/controlplane/admission/policy"
	"github.com/writ-os/writ/controlplane/admission/request"
	"github.com/writ-os/writ/controlplane/admission/webhook"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/podstandard"
)

// Config is what the plugins need from outside. Zero values are upstream's
// defaults.
type Config struct {
	// Cache holds the inventories, which the guard follows, and what tells
	// webhooks and policies.
	Cache client.Cache
	// Catalog is what the cluster serves. nil: the table alone.
	Catalog *schema.Live
	// Roles tells who holds which rights, for Escalation. nil leaves it out.
	Roles Roles
	// Authorizer is that of the API server: certificates, owner references,
	// and the "authorizer" of expressions. nil: Roles.
	Authorizer authorizer.Authorizer
	// Enable and Disable name plugins to run besides, or not, of the default
	// ones. CheckNames says whether they can be.
	Enable, Disable []string
	// ResolveService returns the host and port at which a Service is reached,
	// for webhooks. nil: the DNS name <name>.<namespace>.svc.
	ResolveService func(ctx context.Context, namespace, name string, port int32) (string, error)
	// PodSecurity are the defaults and exemptions of PodSecurity.
	PodSecurity podstandard.Config
	// EventLimits are those of EventRateLimit.
	EventLimits []EventLimit
	// NodeSelectors are those of PodNodeSelector.
	NodeSelectors map[string]string
	// DefaultTolerations and TolerationsWhitelist are the cluster's for
	// PodTolerationRestriction.
	DefaultTolerations, TolerationsWhitelist []corev1.Toleration
	// NotReadySeconds and UnreachableSeconds are how long pods stay on a node
	// that is gone. nil: 300.
	NotReadySeconds, UnreachableSeconds *int64
	// Metrics is where the metrics are registered; nil counts nothing.
	Metrics prometheus.Registerer
	Log     *slog.Logger
}

// Admission is the chain of all plugins.
type Admission struct {
	// Guard is the write guard, the first of the chain.
	Guard *Guard
	chain *chain
	run   []func(context.Context) error
	err   error
}

// New returns the chain; it starts nothing. Names of plugins that there are
// not are left out, and make Run fail: ask CheckNames before.
func New(cfg Config) *Admission {
	if cfg.Authorizer == nil && cfg.Roles != nil {
		cfg.Authorizer = cfg.Roles
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	a := &Admission{Guard: NewGuard(cfg.Cache), err: CheckNames(cfg.Enable, cfg.Disable)}
	a.Guard.catalog = cfg.Catalog
	m := &made{Config: cfg}
	m.mutatingWebhooks, m.validatingWebhooks = webhook.New(webhook.Config{
		Cache: cfg.Cache, Catalog: cfg.Catalog, Authorizer: cfg.Authorizer, Resolve: cfg.ResolveService, Metrics: cfg.Metrics, Log: cfg.Log,
	})
	m.mutatingPolicies, m.validatingPolicies = policy.New(policy.Config{
		Cache: cfg.Cache, Catalog: cfg.Catalog, Authorizer: cfg.Authorizer, Metrics: cfg.Metrics, Log: cfg.Log,
	})
	security, err := podsecurity.New(cfg.PodSecurity)
	if err != nil && a.err == nil {
		a.err = err
	}
	m.security = security
	a.run = []func(context.Context) error{
		a.Guard.Run, m.mutatingWebhooks.Run, m.validatingWebhooks.Run, m.mutatingPolicies.Run, m.validatingPolicies.Run,
	}
	a.chain = &chain{guard: a.Guard, first: []registry.Admission{&ServerTokens{}}}
	for i := range ordered {
		if p := &ordered[i]; p.enabled(&cfg) {
			if one := p.make(m); one != nil {
				a.chain.plugins = append(a.chain.plugins, one)
			}
		}
	}
	if cfg.Roles != nil {
		// Before the quota: nothing may be refused once it has been charged.
		a.chain.first = append(a.chain.first, &Escalation{Roles: cfg.Roles})
	}
	return a
}

// Plugins returns the chain for registry.SetAdmission.
func (a *Admission) Plugins() []registry.Admission { return []registry.Admission{a.chain} }

// Run follows the inventories, webhooks and policies until ctx ends. Until it
// has read the inventories, writes of people wait.
func (a *Admission) Run(ctx context.Context) error {
	if a.err != nil {
		return a.err
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, run := range a.run {
		g.Go(func() error { return run(ctx) })
	}
	return g.Wait()
}

// chain runs the plugins as one, because what one changes others may have to
// see again.
type chain struct {
	guard   *Guard
	first   []registry.Admission // of our own
	plugins []registry.Admission // upstream's, in upstream's order
}

var _ registry.Admission = (*chain)(nil)

// Mutate implements registry.Admission.
func (c *chain) Mutate(ctx context.Context, a *registry.Attributes) error {
	ctx, pass := request.WithPass(ctx)
	for {
		for _, p := range c.plugins {
			if handles(p, a) {
				if err := p.Mutate(ctx, a); err != nil {
					return err
				}
			}
		}
		if !pass.Next() {
			return nil
		}
	}
}

// Validate implements registry.Admission.
func (c *chain) Validate(ctx context.Context, a *registry.Attributes) error {
	if handles(c.guard, a) {
		if err := c.guard.Validate(ctx, a); err != nil {
			return err
		}
	}
	for _, list := range [][]registry.Admission{c.first, c.plugins} {
		for _, p := range list {
			if handles(p, a) {
				if err := p.Validate(ctx, a); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func handles(p registry.Admission, a *registry.Attributes) bool {
	h, ok := p.(registry.Handler)
	return !ok || h.Handles(a.Verb, a.Resource, a.Subresource)
}

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
