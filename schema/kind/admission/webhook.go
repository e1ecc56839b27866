package admission

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/util/webhook"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind"
	"github.com/writ-os/writ/schema/kind/valid"
)

// ValidatingWebhookConfiguration is the judge of its kind.
var ValidatingWebhookConfiguration = &kind.Kind{
	Resource:      schema.ResourceFor[*admissionregistrationv1.ValidatingWebhookConfiguration](),
	Conditional:   true,
	PrepareCreate: func(o schema.Object) { o.SetGeneration(1) },
	PrepareUpdate: func(o, old schema.Object) { countWebhookChange(o, old) },
	Validate:      func(o schema.Object) field.ErrorList { return webhookErrors(hooksOf(o)) },
}

// MutatingWebhookConfiguration is the judge of its kind.
var MutatingWebhookConfiguration = &kind.Kind{
	Resource:      schema.ResourceFor[*admissionregistrationv1.MutatingWebhookConfiguration](),
	Conditional:   true,
	PrepareCreate: func(o schema.Object) { o.SetGeneration(1) },
	PrepareUpdate: func(o, old schema.Object) { countWebhookChange(o, old) },
	Validate:      func(o schema.Object) field.ErrorList { return webhookErrors(hooksOf(o)) },
}

// countWebhookChange counts changes of the webhooks, which stand outside a spec.
func countWebhookChange(o, old schema.Object) {
	if !kind.SamePart(o, old, "Webhooks") {
		o.SetGeneration(old.GetGeneration() + 1)
	}
}

// hook is a webhook of either kind.
type hook struct {
	admissionregistrationv1.ValidatingWebhook
	reinvocation *admissionregistrationv1.ReinvocationPolicyType
}

func hooksOf(o schema.Object) []hook {
	var out []hook
	switch c := o.(type) {
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for _, h := range c.Webhooks {
			out = append(out, hook{ValidatingWebhook: h})
		}
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for _, h := range c.Webhooks {
			out = append(out, hook{reinvocation: h.ReinvocationPolicy, ValidatingWebhook: admissionregistrationv1.ValidatingWebhook{
				Name: h.Name, ClientConfig: h.ClientConfig, Rules: h.Rules, FailurePolicy: h.FailurePolicy, MatchPolicy: h.MatchPolicy,
				NamespaceSelector: h.NamespaceSelector, ObjectSelector: h.ObjectSelector, SideEffects: h.SideEffects,
				TimeoutSeconds: h.TimeoutSeconds, AdmissionReviewVersions: h.AdmissionReviewVersions, MatchConditions: h.MatchConditions,
			}})
		}
	}
	return out
}

func webhookErrors(hooks []hook) field.ErrorList {
	var errs field.ErrorList
	names := map[string]bool{}
	for i := range hooks {
		h, at := &hooks[i], field.NewPath("webhooks").Index(i)
		errs = append(errs, h.errors(at)...)
		errs = append(errs, reviewVersionErrors(h.AdmissionReviewVersions, at.Child("admissionReviewVersions"))...)
		if names[h.Name] && h.Name != "" {
			errs = append(errs, field.Duplicate(at.Child("name"), h.Name))
		}
		names[h.Name] = true
	}
	return errs
}

func (h *hook) errors(at *field.Path) field.ErrorList {
	errs := validation.IsFullyQualifiedName(at.Child("name"), h.Name)
	for i := range h.Rules {
		errs = append(errs, ruleErrors(&h.Rules[i], at.Child("rules").Index(i))...)
	}
	errs = append(errs, valid.OneOf(h.FailurePolicy, at.Child("failurePolicy"), "Fail", "Ignore")...)
	errs = append(errs, valid.OneOf(h.MatchPolicy, at.Child("matchPolicy"), "Equivalent", "Exact")...)
	if h.SideEffects == nil {
		errs = append(errs, field.Required(at.Child("sideEffects"), "must specify one of None, NoneOnDryRun"))
	}
	errs = append(errs, valid.OneOf(h.SideEffects, at.Child("sideEffects"), "None", "NoneOnDryRun")...)
	if t := h.TimeoutSeconds; t != nil && (*t > 30 || *t < 1) {
		errs = append(errs, field.Invalid(at.Child("timeoutSeconds"), *t, "the timeout value must be between 1 and 30 seconds"))
	}
	errs = append(errs, valid.LabelSelector(h.NamespaceSelector, at.Child("namespaceSelector"))...)
	errs = append(errs, valid.LabelSelector(h.ObjectSelector, at.Child("objectSelector"))...)
	errs = append(errs, valid.OneOf(h.reinvocation, at.Child("reinvocationPolicy"), "IfNeeded", "Never")...)
	at2 := at.Child("clientConfig")
	switch c := h.ClientConfig; {
	case (c.URL == nil) == (c.Service == nil):
		errs = append(errs, field.Required(at2, "exactly one of url or service is required"))
	case c.URL != nil:
		errs = append(errs, webhook.ValidateWebhookURL(at2.Child("url"), *c.URL, true)...)
	default:
		var port int32 // the default has been set
		if c.Service.Port != nil {
			port = *c.Service.Port
		}
		errs = append(errs, webhook.ValidateWebhookService(at2.Child("service"), c.Service.Name, c.Service.Namespace, c.Service.Path, port)...)
	}
	return append(errs, matchConditionErrors(h.MatchConditions, false, at.Child("matchConditions"))...)
}

// reviewVersions are the versions of reviews that API servers speak.
var reviewVersions = []string{"v1", "v1beta1"}

func reviewVersionErrors(versions []string, at *field.Path) field.ErrorList {
	if len(versions) == 0 {
		return field.ErrorList{field.Required(at, "must specify one of v1, v1beta1")}
	}
	var errs field.ErrorList
	known := false
	for i, v := range versions {
		if slices.Contains(versions[:i], v) {
			errs = append(errs, field.Invalid(at.Index(i), v, "duplicate version"))
			continue
		}
		for _, msg := range validation.IsDNS1035Label(v) {
			errs = append(errs, field.Invalid(at.Index(i), v, msg))
		}
		known = known || slices.Contains(reviewVersions, v)
	}
	if !known {
		errs = append(errs, field.Invalid(at, versions, "must include at least one of v1, v1beta1"))
	}
	return errs
}

func ruleErrors(r *admissionregistrationv1.RuleWithOperations, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	ops := at.Child("operations")
	if len(r.Operations) == 0 {
		errs = append(errs, field.Required(ops, ""))
	}
	if len(r.Operations) > 1 && slices.Contains(r.Operations, admissionregistrationv1.OperationAll) {
		errs = append(errs, field.Invalid(ops, r.Operations, "if '*' is present, must not specify other operations"))
	}
	for i := range r.Operations {
		errs = append(errs, valid.OneOf(&r.Operations[i], ops.Index(i), "*", "CONNECT", "CREATE", "DELETE", "UPDATE")...)
	}
	star := func(list []string, name, what string) {
		if len(list) == 0 {
			errs = append(errs, field.Required(at.Child(name), ""))
		}
		if len(list) > 1 && slices.Contains(list, "*") {
			errs = append(errs, field.Invalid(at.Child(name), list, "if '*' is present, must not specify other API "+what))
		}
	}
	star(r.APIGroups, "apiGroups", "groups")
	star(r.APIVersions, "apiVersions", "versions")
	for i, v := range r.APIVersions {
		if v == "" {
			errs = append(errs, field.Required(at.Child("apiVersions").Index(i), ""))
		}
	}
	errs = append(errs, ruleResourceErrors(r.Resources, at.Child("resources"))...)
	return append(errs, valid.OneOf(r.Scope, at.Child("scope"), "*", "Cluster", "Namespaced")...)
}

// ruleResourceErrors: what a wildcard covers must not be named beside it.
func ruleResourceErrors(resources []string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(resources) == 0 {
		errs = append(errs, field.Required(at, ""))
	}
	allOf, everywhere := map[string]bool{}, map[string]bool{} // pods/*, */scale
	plain := false
	for i, r := range resources {
		if r == "" {
			errs = append(errs, field.Required(at.Index(i), ""))
			continue
		}
		res, sub, ok := strings.Cut(r, "/")
		if !ok {
			plain = r != "*"
			continue
		}
		if allOf[res] {
			errs = append(errs, field.Invalid(at.Index(i), r, fmt.Sprintf("if '%s/*' is present, must not specify %s", res, r)))
		}
		if everywhere[sub] {
			errs = append(errs, field.Invalid(at.Index(i), r, fmt.Sprintf("if '*/%s' is present, must not specify %s", sub, r)))
		}
		allOf[res] = allOf[res] || sub == "*"
		everywhere[sub] = everywhere[sub] || res == "*"
	}
	if len(resources) > 1 && slices.Contains(resources, "*/*") {
		errs = append(errs, field.Invalid(at, resources, "if '*/*' is present, must not specify other resources"))
	}
	if slices.Contains(resources, "*") && plain {
		errs = append(errs, field.Invalid(at, resources, "if '*' is present, must not specify other resources without subresources"))
	}
	return errs
}
