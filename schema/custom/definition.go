package custom

import (
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	apiservervalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Defaults fills in what a definition leaves out: singular, listKind,
// conversion, the port of a webhook's service, status.storedVersions.
func Defaults(def *apiextensionsv1.CustomResourceDefinition) {
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(def)
}

// ValidateDefinition checks a definition (old is nil) or a change of one, its
// metadata too, with upstream's paths and texts.
func ValidateDefinition(ctx context.Context, def, old *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	in, err := internal(def)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	if old == nil {
		return validation.ValidateCustomResourceDefinition(ctx, in)
	}
	was, err := internal(old)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	return validation.ValidateCustomResourceDefinitionUpdate(ctx, in, was)
}

// ValidateDefinitionStatus checks a change that came by the status door.
func ValidateDefinitionStatus(def, old *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	in, err := internal(def)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	was, err := internal(old)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	return validation.ValidateUpdateCustomResourceDefinitionStatus(in, was)
}

// Warnings are what a client is told of a definition that is accepted: formats
// that nobody checks. What the old state (nil: none) has already is not said
// again.
func Warnings(def, old *apiextensionsv1.CustomResourceDefinition) []string {
	known := map[string]bool{}
	if old != nil {
		for _, f := range unknownFormats(old) {
			known[f] = true
		}
	}
	var out []string
	for _, f := range unknownFormats(def) {
		if !known[f] {
			out = append(out, fmt.Sprintf("unrecognized format %q", f))
		}
	}
	return out
}

func unknownFormats(def *apiextensionsv1.CustomResourceDefinition) []string {
	in, err := internal(def)
	if err != nil {
		return nil
	}
	var out []string
	look := func(s *apiextensions.JSONSchemaProps) bool {
		if s.Format != "" {
			at := &spec.Schema{SchemaProps: spec.SchemaProps{Format: s.Format, Type: []string{s.Type}}}
			out = append(out, apiservervalidation.GetUnrecognizedFormats(at, environment.DefaultCompatibilityVersion())...)
		}
		return false // go on
	}
	if in.Spec.Validation != nil && in.Spec.Validation.OpenAPIV3Schema != nil {
		validation.SchemaHas(in.Spec.Validation.OpenAPIV3Schema, look)
	}
	for _, v := range in.Spec.Versions {
		if v.Schema != nil && v.Schema.OpenAPIV3Schema != nil {
			validation.SchemaHas(v.Schema.OpenAPIV3Schema, look)
		}
	}
	return out
}

// internal is the form that upstream validates. Versions that say the same are
// said once in it, as upstream has it.
func internal(def *apiextensionsv1.CustomResourceDefinition) (*apiextensions.CustomResourceDefinition, error) {
	out := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(def.DeepCopy(), out, nil); err != nil {
		return nil, fmt.Errorf("read definition %s: %w", def.Name, err)
	}
	return out, nil
}
