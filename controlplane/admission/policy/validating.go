package policy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/warning"

	"github.com/writ-os/writ/controlplane/admission/match"
	"github.com/writ-os/writ/controlplane/admission/request"
	"github.com/writ-os/writ/controlplane/admission/source"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
)

// Validating is the plugin ValidatingAdmissionPolicy.
type Validating struct {
	cfg      Config
	policies *source.Source[[]*validator]
	metrics  *metrics
}

var _ registry.Admission = (*Validating)(nil)

// validator is a policy with its bindings.
type validator struct {
	*admissionv1.ValidatingAdmissionPolicy
	criteria *match.Criteria
	programs *compiled[*programs]
	bindings []binding
}

// readValidators reads the policies that are bound, by name. Those that have
// not changed keep what has been compiled.
func readValidators(kept map[string]*validator) func(client.Cache) []*validator {
	return func(c client.Cache) []*validator {
		bound := map[string][]binding{}
		for _, b := range source.Objects[*admissionv1.ValidatingAdmissionPolicyBinding](c, kind("ValidatingAdmissionPolicyBinding")) {
			next := newBinding(b.Name, b.Spec.ParamRef, b.Spec.MatchResources)
			next.actions = b.Spec.ValidationActions
			bound[b.Spec.PolicyName] = append(bound[b.Spec.PolicyName], next)
		}
		var out []*validator
		was := map[string]*validator{}
		for k, v := range kept {
			was[k] = v
		}
		clear(kept)
		for _, p := range source.Objects[*admissionv1.ValidatingAdmissionPolicy](c, kind("ValidatingAdmissionPolicy")) {
			v := &validator{ValidatingAdmissionPolicy: p, programs: &compiled[*programs]{}, bindings: bound[p.Name]}
			if p.Spec.MatchConstraints != nil {
				v.criteria = match.ForPolicy(p.Spec.MatchConstraints)
			}
			// The status changes more often than what is to be compiled.
			if old := was[p.Name]; old != nil && old.UID == p.UID && old.Generation == p.Generation && p.Generation != 0 {
				v.programs = old.programs
			}
			kept[p.Name] = v
			if len(v.bindings) > 0 {
				out = append(out, v)
			}
		}
		slices.SortFunc(out, func(a, b *validator) int { return cmp.Compare(a.Name, b.Name) })
		return out
	}
}

// Run follows the policies until ctx ends.
func (p *Validating) Run(ctx context.Context) error { return p.policies.Run(ctx) }

// Handles implements registry.Handler.
func (p *Validating) Handles(_ string, r *schema.Resource, _ string) bool {
	return !p.policies.Empty() && !request.Exempt(r)
}

// Mutate implements registry.Admission.
func (*Validating) Mutate(context.Context, *registry.Attributes) error { return nil }

// denial is why a write is refused.
type denial struct {
	decision
	policy, binding string // binding "" where the policy itself is at fault
}

func (d *denial) String() string {
	if d.binding == "" {
		return fmt.Sprintf("ValidatingAdmissionPolicy '%s' denied request: %s", d.policy, d.message)
	}
	return fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s", d.policy, d.binding, d.message)
}

// Validate implements registry.Admission.
func (p *Validating) Validate(ctx context.Context, a *registry.Attributes) error {
	list := p.policies.Load()
	if len(list) == 0 {
		return nil
	}
	q := newQuestion(request.New(a, p.cfg.Catalog), p.cfg.Authorizer)
	var denials []denial
	for _, v := range list {
		more, err := p.ask(ctx, v, q)
		if err != nil {
			return err
		}
		denials = append(denials, more...)
	}
	if len(denials) == 0 {
		return nil
	}
	text := denials[0].String()
	err := new(apierrors.StatusError)
	errors.As(admission.NewForbidden(q, errors.New(text)), &err)
	reason := denials[0].reason
	if reason == "" {
		reason = metav1.StatusReasonInvalid
	}
	err.ErrStatus.Reason, err.ErrStatus.Code = reason, codeOf(reason)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Message: text})
	return err
}

func codeOf(r metav1.StatusReason) int32 {
	switch r {
	case metav1.StatusReasonForbidden:
		return http.StatusForbidden
	case metav1.StatusReasonUnauthorized:
		return http.StatusUnauthorized
	case metav1.StatusReasonRequestEntityTooLarge:
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusUnprocessableEntity
}

// ask asks one policy and returns why it refuses.
func (p *Validating) ask(ctx context.Context, v *validator, q *question) ([]denial, error) {
	var out []denial
	misconfigured := func(err error, binding string) {
		switch f := failurePolicy(v.Spec.FailurePolicy); f {
		case admissionv1.Ignore:
		case admissionv1.Fail:
			text := "failed to configure policy: "
			if binding != "" {
				text = "failed to configure binding: "
			}
			out = append(out, denial{decision{message: text + err.Error()}, v.Name, binding})
		default:
			out = append(out, denial{decision{message: fmt.Sprintf("unrecognized failure policy: '%v'", f)}, v.Name, binding})
		}
	}
	m, ok, err := matchesPolicy(v.criteria, q.Request)
	if err != nil {
		misconfigured(err, "")
		return out, nil
	}
	if !ok {
		return nil, nil
	}
	params, err := paramResource(p.cfg.Catalog.Load(), v.Spec.ParamKind)
	if err != nil {
		misconfigured(err, "")
		return out, nil
	}
	notes := map[string][]string{}
	for i := range v.bindings {
		b := &v.bindings[i]
		ok, err := b.matches(q.Request)
		if err != nil {
			misconfigured(err, b.name)
			continue
		}
		if !ok {
			continue
		}
		objects, err := collectParams(ctx, q.Write.Cluster, params, b.params, q.GetNamespace())
		if err != nil {
			misconfigured(err, b.name)
			continue
		}
		if len(objects) == 0 {
			continue
		}
		attrs, err := q.As(ctx, m.Kind)
		if err != nil {
			misconfigured(fmt.Errorf("failed to convert object version: %w", err), b.name)
			continue
		}
		ns, err := q.inNamespace()
		if err != nil {
			return nil, err
		}
		for _, param := range objects {
			decisions, said := v.programs.get(func() *programs { return compileValidating(v.ValidatingAdmissionPolicy) }).
				evaluate(ctx, m, attrs, param, ns, q)
			out = append(out, p.act(ctx, v, b, decisions)...)
			out = append(out, p.note(v, b, said, notes)...)
		}
	}
	for key, values := range notes {
		audit.AddAuditAnnotation(ctx, v.Name+"/"+key, strings.Join(values, ", "))
	}
	return out, nil
}

// act does what a binding says about decisions.
func (p *Validating) act(ctx context.Context, v *validator, b *binding, decisions []decision) []denial {
	var out []denial
	for i, d := range decisions {
		if !d.denied {
			if d.failed {
				p.metrics.observe(v.Name, b.name, "allow", &d)
			}
			continue
		}
		for _, action := range b.actions {
			switch action {
			case admissionv1.Deny:
				out = append(out, denial{d, v.Name, b.name})
				p.metrics.observe(v.Name, b.name, "deny", &d)
			case admissionv1.Audit:
				auditFailure(ctx, v, b, i, &d)
				p.metrics.observe(v.Name, b.name, "audit", &d)
			case admissionv1.Warn:
				warning.AddWarning(ctx, "", fmt.Sprintf("Validation failed for ValidatingAdmissionPolicy '%s' with binding '%s': %s", v.Name, b.name, d.message))
				p.metrics.observe(v.Name, b.name, "warn", &d)
			}
		}
	}
	return out
}

// note collects audit annotations: the same from several bindings once.
func (p *Validating) note(v *validator, b *binding, said []note, notes map[string][]string) []denial {
	var out []denial
	for _, n := range said {
		if n.denied != "" {
			d := decision{denied: true, failed: true, message: n.denied}
			out = append(out, denial{d, v.Name, b.name})
			p.metrics.observe(v.Name, b.name, "deny", &d)
			continue
		}
		if !slices.Contains(notes[n.key], n.value) {
			notes[n.key] = append(notes[n.key], n.value)
		}
	}
	return out
}

// auditFailure tells the audit log of a validation that failed.
func auditFailure(ctx context.Context, v *validator, b *binding, index int, d *decision) {
	said, err := json.Marshal([]any{struct {
		Message           string                         `json:"message"`
		Policy            string                         `json:"policy"`
		Binding           string                         `json:"binding"`
		ExpressionIndex   int                            `json:"expressionIndex"`
		ValidationActions []admissionv1.ValidationAction `json:"validationActions"`
	}{d.message, v.Name, b.name, index, b.actions}})
	if err == nil {
		audit.AddAuditAnnotation(ctx, "validation.policy.admission.k8s.io/validation_failure", string(said))
	}
}
