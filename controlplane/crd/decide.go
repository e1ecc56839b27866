package crd

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/util/webhook"
)

// decide sorts definitions by age, in place, and returns each with the status
// it should have: the same pointer where it has it already, a shallow copy
// otherwise. Who came first keeps a name.
func decide(defs []*apiextensionsv1.CustomResourceDefinition, now time.Time) []*apiextensionsv1.CustomResourceDefinition {
	slices.SortStableFunc(defs, func(a, b *apiextensionsv1.CustomResourceDefinition) int {
		if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	next := slices.Clone(defs)
	for i, def := range defs {
		c := *def
		c.Status.Conditions = slices.Clone(def.Status.Conditions)
		acceptNames(&c, next, now)
		checkSchema(&c, now)
		checkApproval(&c, now)
		establish(&c, now)
		if !equality.Semantic.DeepEqual(c.Status, def.Status) {
			next[i] = &c
		}
	}
	return next
}

// acceptNames gives a definition the names that no other of its group has.
func acceptNames(def *apiextensionsv1.CustomResourceDefinition, all []*apiextensionsv1.CustomResourceDefinition, now time.Time) {
	want, have := def.Spec.Names, def.Status.AcceptedNames
	if equality.Semantic.DeepEqual(want, have) {
		return
	}
	resources, kinds := takenNames(def.Spec.Group, all)
	cond := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue, Reason: "NoConflicts", Message: "no conflicts found",
	}
	got := have
	try := func(want, have string, taken map[string]bool, reason string, set *string) {
		if want != have && taken[want] {
			cond.Status, cond.Reason, cond.Message = apiextensionsv1.ConditionFalse, reason, inUse(want)
			return
		}
		*set = want
	}
	try(want.Plural, have.Plural, resources, "PluralConflict", &got.Plural)
	try(want.Singular, have.Singular, resources, "SingularConflict", &got.Singular)
	if !reflect.DeepEqual(want.ShortNames, have.ShortNames) {
		var refused []string
		for _, s := range want.ShortNames {
			if !slices.Contains(have.ShortNames, s) && resources[s] {
				refused = append(refused, inUse(s))
			}
		}
		if len(refused) > 0 {
			cond.Status, cond.Reason, cond.Message = apiextensionsv1.ConditionFalse, "ShortNamesConflict", aggregate(refused)
		} else {
			got.ShortNames = want.ShortNames
		}
	}
	try(want.Kind, have.Kind, kinds, "KindConflict", &got.Kind)
	try(want.ListKind, have.ListKind, kinds, "ListKindConflict", &got.ListKind)
	got.Categories = want.Categories

	def.Status.AcceptedNames = got
	set(def, cond, now)
	if find(def, apiextensionsv1.Established) == nil {
		set(def, apiextensionsv1.CustomResourceDefinitionCondition{
			Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionFalse,
			Reason: "NotAccepted", Message: "not all names are accepted",
		}, now)
	}
}

// takenNames are the names that the definitions of a group have.
func takenNames(group string, all []*apiextensionsv1.CustomResourceDefinition) (resources, kinds map[string]bool) {
	resources, kinds = map[string]bool{}, map[string]bool{}
	for _, o := range all {
		if o.Spec.Group != group {
			continue
		}
		n := o.Status.AcceptedNames
		for _, s := range append([]string{n.Plural, n.Singular}, n.ShortNames...) {
			resources[s] = true
		}
		kinds[n.Kind], kinds[n.ListKind] = true, true
	}
	return resources, kinds
}

func inUse(name string) string { return fmt.Sprintf("%q is already in use", name) }

// aggregate joins messages as upstream's aggregate of errors does.
func aggregate(messages []string) string {
	seen := map[string]bool{}
	var out []string
	for _, m := range messages {
		if !seen[m] {
			seen[m] = true
			out = append(out, m)
		}
	}
	if len(out) == 1 {
		return out[0]
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// establish lets a definition be served once its names are accepted. What is
// established stays so.
func establish(def *apiextensionsv1.CustomResourceDefinition, now time.Time) {
	if !isTrue(def, apiextensionsv1.NamesAccepted) || isTrue(def, apiextensionsv1.Established) {
		return
	}
	cond := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue,
		Reason: "InitialNamesAccepted", Message: "the initial names have been accepted",
	}
	if c := def.Spec.Conversion; c != nil && c.Webhook != nil && c.Webhook.ClientConfig != nil &&
		len(webhook.ValidateCABundle(field.NewPath(""), c.Webhook.ClientConfig.CABundle)) > 0 {
		cond.Status, cond.Reason = apiextensionsv1.ConditionFalse, "InvalidCABundle"
		cond.Message = "The conversion webhook CABundle is invalid"
	}
	set(def, cond, now)
}

// checkSchema says of definitions from before schemas had to be structural
// that theirs are not.
func checkSchema(def *apiextensionsv1.CustomResourceDefinition, now time.Time) {
	if !def.Spec.PreserveUnknownFields && isTrue(def, apiextensionsv1.NamesAccepted) && find(def, apiextensionsv1.NonStructuralSchema) == nil {
		return // validation lets no other in, and looking costs milliseconds
	}
	cond := schemaCondition(def)
	if cond == nil {
		def.Status.Conditions = slices.DeleteFunc(def.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return c.Type == apiextensionsv1.NonStructuralSchema
		})
		return
	}
	set(def, *cond, now)
}

func schemaCondition(def *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinitionCondition {
	cond := &apiextensionsv1.CustomResourceDefinitionCondition{Type: apiextensionsv1.NonStructuralSchema, Status: apiextensionsv1.ConditionUnknown}
	var errs field.ErrorList
	if def.Spec.PreserveUnknownFields {
		errs = append(errs, field.Invalid(field.NewPath("spec", "preserveUnknownFields"), true, "must be false"))
	}
	for i, v := range def.Spec.Versions {
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			continue
		}
		in := &apiextensions.CustomResourceValidation{}
		if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(v.Schema, in, nil); err != nil {
			continue
		}
		s, err := structural.NewStructural(in.OpenAPIV3Schema)
		if err != nil {
			cond.Reason = "StructuralError"
			cond.Message = fmt.Sprintf("failed to check validation schema for version %s: %v", v.Name, err)
			return cond
		}
		errs = append(errs, structural.ValidateStructural(field.NewPath("spec", "versions").Index(i).Child("schema", "openAPIV3Schema"), s)...)
	}
	if len(errs) == 0 {
		return nil
	}
	cond.Status, cond.Reason, cond.Message = apiextensionsv1.ConditionTrue, "Violations", errs.ToAggregate().Error()
	return cond
}

// checkApproval says of definitions in the community's groups whether they are
// approved (KEP-1111).
func checkApproval(def *apiextensionsv1.CustomResourceDefinition, now time.Time) {
	if !apihelpers.IsProtectedCommunityGroup(def.Spec.Group) {
		return
	}
	cond := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.KubernetesAPIApprovalPolicyConformant, Status: apiextensionsv1.ConditionFalse,
	}
	state, message := apihelpers.GetAPIApprovalState(def.Annotations)
	cond.Message = message
	switch state {
	case apihelpers.APIApprovalInvalid:
		cond.Reason = "InvalidAnnotation"
	case apihelpers.APIApprovalMissing:
		cond.Reason = "MissingAnnotation"
	case apihelpers.APIApproved:
		cond.Status, cond.Reason = apiextensionsv1.ConditionTrue, "ApprovedAnnotation"
	case apihelpers.APIApprovalBypassed:
		cond.Reason = "UnapprovedAnnotation"
	}
	set(def, cond, now)
}

func find(def *apiextensionsv1.CustomResourceDefinition, t apiextensionsv1.CustomResourceDefinitionConditionType) *apiextensionsv1.CustomResourceDefinitionCondition {
	return apihelpers.FindCRDCondition(def, t)
}

func isTrue(def *apiextensionsv1.CustomResourceDefinition, t apiextensionsv1.CustomResourceDefinitionConditionType) bool {
	return apihelpers.IsCRDConditionTrue(def, t)
}

// set adds or changes a condition; one that says the same already stays.
func set(def *apiextensionsv1.CustomResourceDefinition, c apiextensionsv1.CustomResourceDefinitionCondition, now time.Time) {
	c.LastTransitionTime = metav1.NewTime(now).Rfc3339Copy()
	old := find(def, c.Type)
	if old == nil {
		def.Status.Conditions = append(def.Status.Conditions, c)
		return
	}
	if old.Status == c.Status && !old.LastTransitionTime.IsZero() {
		c.LastTransitionTime = old.LastTransitionTime
	}
	c.ObservedGeneration = old.ObservedGeneration
	*old = c
}
