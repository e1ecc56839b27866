package crd

import (
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/schema/custom"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func defined(t *testing.T, names, to string, age time.Duration) *apiextensionsv1.CustomResourceDefinition {
	def := parse(t, strings.ReplaceAll(gadgets, names, to))
	custom.Defaults(def)
	def.CreationTimestamp = metav1.NewTime(epoch.Add(-age))
	return def
}

func TestDecide(t *testing.T) {
	condition := func(def *apiextensionsv1.CustomResourceDefinition, of apiextensionsv1.CustomResourceDefinitionConditionType) string {
		c := find(def, of)
		if c == nil {
			return ""
		}
		return string(c.Status) + " " + c.Reason + ": " + c.Message
	}
	for _, c := range []struct {
		name string
		def  func(*apiextensionsv1.CustomResourceDefinition)
		want map[apiextensionsv1.CustomResourceDefinitionConditionType]string
	}{
		{name: "new", def: func(*apiextensionsv1.CustomResourceDefinition) {}, want: map[apiextensionsv1.CustomResourceDefinitionConditionType]string{
			apiextensionsv1.NamesAccepted: "True NoConflicts: no conflicts found",
			apiextensionsv1.Established:   "True InitialNamesAccepted: the initial names have been accepted",
		}},
		{name: "protected group", def: func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Group = "a.k8s.io" }, want: map[apiextensionsv1.CustomResourceDefinitionConditionType]string{
			apiextensionsv1.KubernetesAPIApprovalPolicyConformant: `False MissingAnnotation: protected groups must have approval annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111`,
		}},
		{name: "approved", def: func(d *apiextensionsv1.CustomResourceDefinition) {
			d.Spec.Group, d.Annotations = "a.k8s.io", map[string]string{"api-approved.kubernetes.io": "https://example.com/1"}
		}, want: map[apiextensionsv1.CustomResourceDefinitionConditionType]string{
			apiextensionsv1.KubernetesAPIApprovalPolicyConformant: "True ApprovedAnnotation: approved in https://example.com/1",
		}},
		{name: "not structural", def: func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.PreserveUnknownFields = true }, want: map[apiextensionsv1.CustomResourceDefinitionConditionType]string{
			apiextensionsv1.NonStructuralSchema: "True Violations: spec.preserveUnknownFields: Invalid value: true: must be false",
		}},
		{name: "bundle", def: func(d *apiextensionsv1.CustomResourceDefinition) {
			d.Spec.Conversion.Webhook = &apiextensionsv1.WebhookConversion{ClientConfig: &apiextensionsv1.WebhookClientConfig{CABundle: []byte("x")}}
		}, want: map[apiextensionsv1.CustomResourceDefinitionConditionType]string{
			apiextensionsv1.Established: "False InvalidCABundle: The conversion webhook CABundle is invalid",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			def := defined(t, "gadgets", "gadgets", 0)
			c.def(def)
			got := decide([]*apiextensionsv1.CustomResourceDefinition{def}, epoch)[0]
			for of, want := range c.want {
				if text := condition(got, of); text != want {
					t.Errorf("%s is %q, want %q", of, text, want)
				}
			}
			if len(def.Status.Conditions) > 0 {
				t.Error("changed what was passed in")
			}
			if again := decide([]*apiextensionsv1.CustomResourceDefinition{got}, epoch.Add(time.Hour))[0]; again != got {
				t.Errorf("decided anew: %+v after %+v", again.Status, got.Status)
			}
		})
	}
}

// TestOldestKeepsName: of two that ask for a name at once the older gets it.
func TestOldestKeepsName(t *testing.T) {
	young, old := defined(t, "gadgets", "gizmos", time.Second), defined(t, "gadgets", "things", time.Minute)
	got := decide([]*apiextensionsv1.CustomResourceDefinition{young, old}, epoch)
	if got[0].Spec.Names.Plural != "things" || !isTrue(got[0], apiextensionsv1.Established) || isTrue(got[1], apiextensionsv1.Established) {
		t.Errorf("decided %+v, %+v", got[0].Status, got[1].Status)
	}
	if c := find(got[1], apiextensionsv1.NamesAccepted); c.Reason != "ListKindConflict" {
		t.Errorf("condition %+v", c)
	}
}
