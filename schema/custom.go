package schema

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Custom is what the definition of a custom resource says of one version of
// it, beyond what a row of the table can hold. Objects of custom resources are
// *unstructured.Unstructured. Methods are safe for concurrent use; what is
// costly to make (schemas, CEL programs) is made when first asked for.
type Custom interface {
	// Prune drops the fields that the schema does not know and returns their
	// paths, for strict field validation. Metadata is coerced as upstream does.
	Prune(o map[string]any) []string
	// Default fills in what the schema has defaults for.
	Default(o map[string]any)
	// Validate checks a new object (old is nil) or a change, with ratcheting:
	// schema, list types, CEL rules.
	Validate(ctx context.Context, o, old *unstructured.Unstructured) field.ErrorList
	// Types tells the merge types of server-side apply.
	Types() managedfields.TypeConverter
	// ScalePaths are the JSON paths of the scale subresource (".spec.replicas",
	// ".status.replicas", ".status.labelSelector"); empty without one.
	ScalePaths() (spec, status, selector string)
	// UID is the UID of the definition, for discovery's storage hash.
	UID() string
}
