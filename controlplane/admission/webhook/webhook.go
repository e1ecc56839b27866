// Package webhook asks webhooks about writes: the plugins
// MutatingAdmissionWebhook and ValidatingAdmissionWebhook.
//
// Watches MutatingWebhookConfigurations and ValidatingWebhookConfigurations.
// Owns nothing. It promises bounded time and memory whatever a webhook does:
// every call ends with its timeout, answers are read up to a limit, and no lock
// is held meanwhile, so that only writes that a webhook is about wait for it.
package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/writ-os/writ/controlplane/admission/match"
	"github.com/writ-os/writ/controlplane/admission/request"
	"github.com/writ-os/writ/controlplane/admission/source"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
)

var (
	mutatingKind   = kschema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"}
	validatingKind = kschema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"}
)

// Config is what the plugins need from outside.
type Config struct {
	Cache   client.Cache
	Catalog *schema.Live
	// Authorizer is the "authorizer" of match conditions. nil: conditions that
	// use it fail.
	Authorizer authorizer.Authorizer
	// Resolve returns the host and port at which a Service is reached. nil: the
	// DNS name <name>.<namespace>.svc.
	Resolve func(ctx context.Context, namespace, name string, port int32) (string, error)
	// Metrics is where the metrics are registered; nil counts nothing.
	Metrics prometheus.Registerer
	Log     *slog.Logger
}

// budget bounds all calls of one write together, as upstream's request timeout
// does: writes of parts of this process have no deadline of their own.
const budget = time.Minute

// plugin is what both sorts of webhook have in common.
type plugin struct {
	cfg     Config
	hooks   *source.Source[[]*hook]
	clients *clients
	metrics *metrics
}

// New returns both plugins; it starts nothing.
func New(cfg Config) (*Mutating, *Validating) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	c, m := newClients(cfg.Resolve), newMetrics(cfg.Metrics)
	part := func(kind kschema.GroupVersionKind, build func(client.Cache) []*hook) plugin {
		return plugin{cfg: cfg, clients: c, metrics: m, hooks: source.New(source.Config[[]*hook]{
			Cache: cfg.Cache, Kinds: []kschema.GroupVersionKind{kind}, Build: build,
		})}
	}
	return &Mutating{part(mutatingKind, mutatingHooks(map[string]cached{}))},
		&Validating{part(validatingKind, validatingHooks(map[string]cached{}))}
}

// Run follows the configurations until ctx ends.
func (p *plugin) Run(ctx context.Context) error {
	err := p.hooks.Run(ctx)
	p.clients.close()
	return err
}

// Handles implements registry.Handler.
func (p *plugin) Handles(_ string, r *schema.Resource, _ string) bool {
	return !p.hooks.Empty() && !request.Exempt(r)
}

// call is one webhook that is to be asked, and as what it sees the write.
type call struct {
	*hook
	match.Match
}

// wanted says whether a webhook is about a write.
func (p *plugin) wanted(ctx context.Context, h *hook, r *request.Request) (*call, error) {
	m, ok, err := h.criteria.Match(r)
	if err != nil || !ok {
		return nil, err
	}
	if h.matcher == nil {
		return &call{h, m}, nil
	}
	attrs, err := r.As(ctx, m.Kind)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	res := h.matcher().Match(ctx, attrs, nil, p.authorizer())
	switch {
	case res.Error != nil:
		return nil, apierrors.NewForbidden(r.GetResource().GroupResource(), r.GetName(), res.Error)
	case !res.Matches:
		return nil, nil
	}
	return &call{h, m}, nil
}

func (p *plugin) authorizer() authorizer.Authorizer {
	if p.cfg.Authorizer != nil {
		return p.cfg.Authorizer
	}
	return authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		return authorizer.DecisionNoOpinion, "", errors.New("no authorizer")
	})
}

// failure is a webhook that could not be asked, or whose answer makes no sense:
// the failure policy decides what that means.
type failure struct {
	webhook string
	reason  error
	code    int32 // of the answer, or of what it amounts to
}

// Error implements error with upstream's text.
func (f *failure) Error() string {
	return fmt.Sprintf("failed calling webhook %q: %v", f.webhook, f.reason)
}

func (f *failure) Unwrap() error { return f.reason }

// refusal is the word of a webhook.
type refusal struct{ *apierrors.StatusError }

// timedOut is what a caller gets whose own time is up.
func timedOut(ctx context.Context) error {
	if ctx.Err() != nil {
		return apierrors.NewTimeoutError("request did not complete within requested timeout", 0)
	}
	return nil
}

// settle turns the error of a call into what the caller gets: nil where the
// failure policy says so.
func (p *plugin) settle(ctx context.Context, c *call, r *request.Request, err error, took time.Duration) error {
	op := string(r.GetOperation())
	var f *failure
	var no *refusal
	switch {
	case err == nil:
		p.metrics.called(c.hook, op, 200, false, took)
		return nil
	case errors.As(err, &no):
		p.metrics.called(c.hook, op, no.ErrStatus.Code, true, took)
		p.metrics.rejected(c.hook, op, "no_error", no.ErrStatus.Code)
		return no.StatusError
	case errors.As(err, &f):
		p.metrics.called(c.hook, op, f.code, !c.ignoresFailure(), took)
		canceled := errors.Is(err, context.Canceled)
		if !c.ignoresFailure() {
			if !canceled {
				p.metrics.rejected(c.hook, op, "calling_webhook_error", f.code)
			}
			p.cfg.Log.Warn("webhook failed, write refused", "webhook", c.Name, "err", err)
			return apierrors.NewInternalError(err)
		}
		if !canceled {
			p.metrics.failedOpen(c.hook)
		}
		p.cfg.Log.Warn("webhook failed, write goes on", "webhook", c.Name, "err", err)
		return nil
	}
	p.metrics.called(c.hook, op, 0, true, took)
	p.metrics.rejected(c.hook, op, "apiserver_internal_error", 0)
	return err
}

var (
	_ registry.Admission = (*Mutating)(nil)
	_ registry.Admission = (*Validating)(nil)
)
