// Package admission judges webhooks and policies of admission, and their
// expressions.
//
// It watches nothing, owns nothing and promises not to change what it judges.
package admission

import "github.com/writ-os/writ/schema/kind"

// Kinds are the judges of the group.
var Kinds = []*kind.Kind{
	MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, MutatingWebhookConfiguration,
	ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
}
