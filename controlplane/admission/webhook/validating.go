package webhook

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/warning"

	"github.com/writ-os/writ/controlplane/admission/request"
	"github.com/writ-os/writ/controlplane/registry"
)

// Validating is the plugin ValidatingAdmissionWebhook: all webhooks that are
// about a write are asked at once, and one refusal is enough.
type Validating struct{ plugin }

// Mutate implements registry.Admission.
func (*Validating) Mutate(context.Context, *registry.Attributes) error { return nil }

// Validate implements registry.Admission.
func (v *Validating) Validate(ctx context.Context, a *registry.Attributes) error {
	hooks := v.hooks.Load()
	if len(hooks) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	r := request.New(a, v.cfg.Catalog)
	var calls []*call
	var attrs []*admission.VersionedAttributes
	for _, h := range hooks {
		c, err := v.wanted(ctx, h, r)
		if err != nil {
			return err
		}
		if c == nil {
			continue
		}
		as, err := r.As(ctx, c.Kind)
		if err != nil {
			return apierrors.NewInternalError(err)
		}
		calls, attrs = append(calls, c), append(attrs, as)
	}
	if len(calls) == 0 {
		return nil
	}
	if err := timedOut(ctx); err != nil {
		return err
	}
	return v.askAll(ctx, calls, attrs, r)
}

// verdict is how one of several calls ended.
type verdict struct {
	answer *answer
	err    error
	took   time.Duration
}

// askAll asks in parallel and returns when all have answered. Of several
// refusals the caller gets the first, in the order of the webhooks.
func (v *Validating) askAll(ctx context.Context, calls []*call, attrs []*admission.VersionedAttributes, r *request.Request) error {
	results := make([]chan verdict, len(calls))
	for i, c := range calls {
		results[i] = make(chan verdict, 1)
		go func() {
			began := time.Now()
			var out verdict
			defer func() {
				// A webhook's answer must not be able to end the process.
				if p := recover(); p != nil {
					out.err = apierrors.NewInternalError(fmt.Errorf("ValidatingAdmissionWebhook/%v has panicked: %v", c.Name, p))
				}
				out.took = time.Since(began)
				results[i] <- out
			}()
			out.answer, out.err = v.ask(ctx, c, r, attrs[i])
		}()
	}
	var first error
	for i, c := range calls {
		out := <-results[i]
		if a := out.answer; a != nil {
			for k, text := range a.audit {
				audit.AddAuditAnnotation(ctx, c.Name+"/"+k, text)
			}
			for _, w := range a.warnings {
				warning.AddWarning(ctx, "", w)
			}
		}
		err := v.settle(ctx, c, r, out.err, out.took)
		if out.err != nil && err == nil {
			audit.AddAuditAnnotation(ctx, fmt.Sprintf("failed-open.validating.webhook.admission.k8s.io/round_0_index_%d", i), c.Name)
		}
		if first == nil {
			first = err
		}
	}
	return first
}
