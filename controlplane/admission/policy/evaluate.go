package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	celtypes "github.com/google/cel-go/common/types"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	celplugin "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/writ-os/writ/controlplane/admission/match"
)

// programs are the compiled expressions of a validating policy.
type programs struct {
	err                                error
	conditions                         matchconditions.Matcher
	validations, messages, annotations celplugin.ConditionEvaluator
	failure                            admissionv1.FailurePolicyType
}

func compileValidating(p *admissionv1.ValidatingAdmissionPolicy) *programs {
	out := &programs{failure: failurePolicy(p.Spec.FailurePolicy)}
	c, err := celplugin.NewCompositedCompiler(base())
	if err != nil {
		out.err = err
		return out
	}
	all := celplugin.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil, HasAuthorizer: true}
	plain := celplugin.OptionalVariableDeclarations{HasParams: all.HasParams}
	c.CompileAndStoreVariables(variables(p.Spec.Variables), all, environment.StoredExpressions)
	out.conditions = conditions(c, p.Spec.MatchConditions, all, p.Spec.FailurePolicy, p.Name)
	out.validations = c.CompileCondition(validations(p.Spec.Validations), all, environment.StoredExpressions)
	out.messages = c.CompileCondition(messages(p.Spec.Validations), plain, environment.StoredExpressions)
	out.annotations = c.CompileCondition(annotations(p.Spec.AuditAnnotations), all, environment.StoredExpressions)
	return out
}

// decision is the outcome of one validation. Failed says that it could not be
// evaluated; then denied is what the failure policy says.
type decision struct {
	denied, failed bool
	err            error
	message        string
	reason         metav1.StatusReason
	took           time.Duration
}

// note is an audit annotation, or why there is none.
type note struct {
	key, value string
	denied     string
}

// failed is the decision about what could not be evaluated.
func (p *programs) failed(err error, message string) decision {
	return decision{denied: p.failure != admissionv1.Ignore, failed: true, err: err, message: message}
}

// evaluate runs a policy with one parameter.
func (p *programs) evaluate(ctx context.Context, m match.Match, attrs *admission.VersionedAttributes, param runtime.Object, ns *corev1.Namespace, q *question) ([]decision, []note) {
	whole := func(err error) ([]decision, []note) { return []decision{p.failed(err, err.Error())}, nil }
	if p.err != nil {
		return whole(p.err)
	}
	if p.conditions != nil {
		res := p.conditions.Match(ctx, attrs, param, q.authz)
		switch {
		case res.Error != nil:
			return whole(res.Error)
		case !res.Matches:
			return nil, nil
		}
	}
	bound := celplugin.OptionalVariableBindings{VersionedParams: param, Authorizer: q.authz}
	req := celplugin.CreateAdmissionRequest(attrs.Attributes, metav1.GroupVersionResource(m.Resource), metav1.GroupVersionKind(attrs.VersionedKind))
	shown := celplugin.CreateNamespaceObject(ns)
	results, left, err := p.validations.ForInput(ctx, attrs, req, bound, shown, celconfig.RuntimeCELCostBudget)
	if err != nil {
		return whole(err)
	}
	texts, _, textErr := p.messages.ForInput(ctx, attrs, req, celplugin.OptionalVariableBindings{VersionedParams: param}, shown, left)
	decisions := make([]decision, len(results))
	for i, res := range results {
		var text *celplugin.EvaluationResult
		if i < len(texts) {
			text = &texts[i]
		}
		decisions[i] = p.decide(res, text, textErr)
	}
	values, _, err := p.annotations.ForInput(ctx, attrs, req, bound, shown, celconfig.RuntimeCELCostBudget)
	if err != nil {
		return whole(err)
	}
	return decisions, p.notes(values)
}

// decide judges one validation.
func (p *programs) decide(res celplugin.EvaluationResult, text *celplugin.EvaluationResult, textErr error) decision {
	switch {
	case res.Error != nil:
		d := p.failed(res.Error, res.Error.Error())
		d.took = res.Elapsed
		return d
	case errors.Is(textErr, apiservercel.ErrInternal) || errors.Is(textErr, apiservercel.ErrOutOfBudget):
		d := p.failed(textErr, fmt.Sprintf("failed messageExpression: %s", textErr))
		d.took = res.Elapsed
		return d
	case res.EvalResult == celtypes.True:
		return decision{took: res.Elapsed}
	}
	v := res.ExpressionAccessor.(*expression).validation
	d := decision{denied: true, took: res.Elapsed, reason: metav1.StatusReasonInvalid, message: messageOf(v, text)}
	if v.Reason != nil {
		d.reason = *v.Reason
	}
	return d
}

// messageOf is the message of a validation that has failed: what its
// expression says if that is one short line, else its text, else itself.
func messageOf(v *admissionv1.Validation, text *celplugin.EvaluationResult) string {
	if text != nil && text.Error == nil && text.EvalResult != nil {
		if s, ok := text.EvalResult.Value().(string); ok {
			s = strings.TrimSpace(s)
			if s != "" && len(s) <= celconfig.MaxEvaluatedMessageExpressionSizeBytes && !strings.Contains(s, "\n") {
				return s
			}
		}
	}
	if v.Message != "" {
		if s := strings.TrimSpace(v.Message); s != "" {
			return s
		}
	}
	return fmt.Sprintf("failed expression: %v", strings.TrimSpace(v.Expression))
}

// maxNote bounds an audit annotation, in bytes.
const maxNote = 10 * 1024

func (p *programs) notes(values []celplugin.EvaluationResult) []note {
	var out []note
	for _, res := range values {
		e, ok := res.ExpressionAccessor.(*expression)
		if !ok {
			continue
		}
		n := note{key: e.annotation.Key}
		switch {
		case res.Error != nil:
			if p.failure != admissionv1.Ignore {
				n.denied = res.Error.Error()
			}
		case res.EvalResult.Type() == celtypes.StringType:
			n.value = strings.TrimSpace(res.EvalResult.Value().(string))
			n.value = n.value[:min(len(n.value), maxNote)]
		case res.EvalResult.Type() == celtypes.NullType:
		default:
			n.denied = fmt.Sprintf("valueExpression '%v' resulted in unsupported return type: %v. Return type must be either string or null.",
				e.text, res.EvalResult.Type())
		}
		if n.value != "" || n.denied != "" {
			out = append(out, n)
		}
	}
	return out
}
