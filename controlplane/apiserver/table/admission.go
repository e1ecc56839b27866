package table

import (
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/schema"
)

// Columns of webhooks and policies.
var _ = register(map[string]func(*Row) any{
	"webhookCount":    func(r *Row) any { return webhooks(r.Object) },
	"policyRules":     func(r *Row) any { return policyRules(r.Object) },
	"policyParamKind": func(r *Row) any { return paramKind(r.Object) },
	"policyParamRef":  func(r *Row) any { return paramRef(r.Object) },
})

func webhooks(o schema.Object) int64 {
	switch c := o.(type) {
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		return int64(len(c.Webhooks))
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		return int64(len(c.Webhooks))
	}
	return 0
}

func policyRules(o schema.Object) int64 {
	switch p := o.(type) {
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		return int64(len(p.Spec.Validations))
	case *admissionregistrationv1.MutatingAdmissionPolicy:
		return int64(len(p.Spec.Mutations))
	}
	return 0
}

func paramKind(o schema.Object) string {
	var k *admissionregistrationv1.ParamKind
	switch p := o.(type) {
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		k = p.Spec.ParamKind
	case *admissionregistrationv1.MutatingAdmissionPolicy:
		k = p.Spec.ParamKind
	}
	if k == nil {
		return unset
	}
	return k.APIVersion + "/" + k.Kind
}

// paramRef names the parameters of a binding. Whether they live in a namespace
// cannot be told from it: those without one get "*".
func paramRef(o schema.Object) string {
	var ref *admissionregistrationv1.ParamRef
	switch b := o.(type) {
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		ref = b.Spec.ParamRef
	case *admissionregistrationv1.MutatingAdmissionPolicyBinding:
		ref = b.Spec.ParamRef
	}
	switch {
	case ref == nil:
		return unset
	case ref.Name != "" && ref.Namespace != "":
		return ref.Namespace + "/" + ref.Name
	case ref.Name != "":
		return "*/" + ref.Name
	case ref.Selector != nil:
		return selectorText(ref.Selector)
	}
	return unset
}

// selectorText prints a selector as upstream prints the Go value.
func selectorText(s *metav1.LabelSelector) string { return strings.TrimSpace(s.String()) }
