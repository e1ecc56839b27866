package resource

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema/kind/valid"
)

// deviceConfigErrors checks what a driver is told. Stored: it has been so before.
func deviceConfigErrors(c *resourcev1.DeviceConfiguration, stored bool, at *field.Path) field.ErrorList {
	at = at.Child("opaque")
	if c.Opaque == nil {
		return field.ErrorList{field.Required(at, "")}
	}
	return append(valid.DriverName(c.Opaque.Driver, at.Child("driver")), opaqueErrors(&c.Opaque.Parameters, stored, at.Child("parameters"))...)
}

// opaqueErrors: what a driver gets is an object. It may be as large as it has
// been before.
func opaqueErrors(p *runtime.RawExtension, stored bool, at *field.Path) field.ErrorList {
	var v any
	switch {
	case len(p.Raw) == 0:
		return field.ErrorList{field.Required(at, "")}
	case !stored && len(p.Raw) > resourcev1.OpaqueParametersMaxLength:
		return field.ErrorList{field.TooLong(at, "", resourcev1.OpaqueParametersMaxLength)}
	}
	if err := json.Unmarshal(p.Raw, &v); err != nil {
		return field.ErrorList{field.Invalid(at, "<value omitted>", fmt.Sprintf("error parsing data as JSON: %v", err))}
	}
	switch v.(type) {
	case nil:
		return field.ErrorList{field.Required(at, "")}
	case map[string]any:
		return nil
	}
	return field.ErrorList{field.Invalid(at, "<value omitted>", "must be a valid JSON object")}
}

// deviceClassErrors checks which devices a class has, and what they are told.
// Old is nil for a new class.
func deviceClassErrors(s, old *resourcev1.DeviceClassSpec) field.ErrorList {
	at := field.NewPath("spec")
	selected := old != nil && equality.Semantic.DeepEqual(s.Selectors, old.Selectors)
	told := old != nil && equality.Semantic.DeepEqual(s.Config, old.Config)
	errs := deviceSelectorErrors(s.Selectors, selected, at.Child("selectors"))
	errs = append(errs, listErrors(s.Config, resourcev1.DeviceConfigMaxSize, at.Child("config"), func(c *resourcev1.DeviceClassConfiguration, at *field.Path) field.ErrorList {
		return deviceConfigErrors(&c.DeviceConfiguration, told, at)
	}, nil)...)
	if n := s.ExtendedResourceName; n != nil && !isExtended(*n) {
		errs = append(errs, field.Invalid(at.Child("extendedResourceName"), *n, "must be a valid extended resource name"))
	}
	return errs
}

// isExtended says whether a resource is none of Kubernetes' own, and can be in a
// quota.
func isExtended(name string) bool {
	if !strings.Contains(name, "/") || strings.Contains(name, corev1.ResourceDefaultNamespacePrefix) || strings.HasPrefix(name, corev1.DefaultResourceRequestsPrefix) {
		return false
	}
	return len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+name)) == 0
}
