package custom

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	openapiv2 "k8s.io/apiextensions-apiserver/pkg/controller/openapi/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

const (
	refV2 = "#/definitions/"
	refV3 = "#/components/schemas/"

	metaModels = "io.k8s.apimachinery.pkg.apis.meta.v1."
)

// Document is what one version adds to an OpenAPI document. Values are JSON.
type Document struct {
	// Paths by path: "/apis/example.com/v1/widgets".
	Paths map[string]json.RawMessage
	// Schemas are components (v3) or definitions (v2), those of the version and
	// those it refers to, by name: "com.example.v1.Widget".
	Schemas map[string]json.RawMessage
	// Parameters are those that paths refer to. Version 2 only.
	Parameters map[string]json.RawMessage
}

// OpenAPIV3 returns what a version of a definition adds to the document of its
// group and version.
func OpenAPIV3(v *Version) (*Document, error) { return v.document(false) }

// OpenAPIV2 returns what a version of a definition adds to the document of the
// whole API. Version 2 can say less; what kubectl would take amiss is left out.
func OpenAPIV2(v *Version) (*Document, error) { return v.document(true) }

// Join writes the version 3 document of a group and version that several
// definitions share.
func Join(docs ...*Document) ([]byte, error) {
	paths, schemas := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	for _, d := range docs {
		for k, p := range d.Paths {
			paths[k] = p
		}
		for k, s := range d.Schemas {
			schemas[k] = s
		}
	}
	return json.Marshal(map[string]any{
		"openapi":    "3.0.0",
		"info":       map[string]string{"title": "Kubernetes CRD Swagger", "version": "v0.1.0"},
		"paths":      paths,
		"components": map[string]any{"schemas": schemas},
	})
}

func (v *Version) document(v2 bool) (*Document, error) {
	d, err := v.fromTemplate(v2)
	if err != nil {
		return nil, fmt.Errorf("write OpenAPI of %s, %s: %w", v.d.def.Name, v.spec.Name, err)
	}
	own, err := v.openAPISchema(v2)
	if err != nil {
		return nil, fmt.Errorf("write OpenAPI of %s, %s: %w", v.d.def.Name, v.spec.Name, err)
	}
	names := v.d.def.Spec.Names
	list := v.listSchema(v2)
	if fields := v.selectable(); fields != nil {
		own.AddExtension("x-kubernetes-selectable-fields", fields)
		list.AddExtension("x-kubernetes-selectable-fields", fields)
	}
	for kind, s := range map[string]*spec.Schema{names.Kind: own, names.ListKind: list} {
		data, err := json.Marshal(s)
		if err != nil {
			return nil, fmt.Errorf("write OpenAPI of %s, %s: %w", v.d.def.Name, v.spec.Name, err)
		}
		d.Schemas[v.modelName(kind)] = data
	}
	return d, nil
}

// modelName is "com.example.v1.Widget".
func (v *Version) modelName(kind string) string {
	return reversed(v.d.def.Spec.Group) + "." + v.spec.Name + "." + kind
}

func reversed(group string) string {
	parts := strings.Split(group, ".")
	slices.Reverse(parts)
	return strings.Join(parts, ".")
}

func (v *Version) selectable() []any {
	var out []any
	for _, f := range v.spec.SelectableFields {
		out = append(out, map[string]any{"fieldPath": strings.TrimPrefix(f.JSONPath, ".")})
	}
	return out
}

// openAPISchema is the schema of the kind with the metadata that all kinds have.
func (v *Version) openAPISchema(v2 bool) (*spec.Schema, error) {
	s, err := v.openTree()
	if err != nil {
		return nil, err
	}
	var out *spec.Schema
	if s == nil || v2 && (s.XPreserveUnknownFields || v.d.def.Spec.PreserveUnknownFields) {
		// Properties, even those of the metadata, would make kubectl refuse others.
		out = &spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}}}
	} else {
		if v2 {
			s = openapiv2.ToStructuralOpenAPIV2(s)
		}
		out = s.ToKubeOpenAPI()
		out.SetProperty("metadata", metaRef("ObjectMeta", objectMetaDoc, v2))
		typeMeta(out)
		embedded(out, v2)
		if v2 {
			dropDefaults(out)
		}
	}
	out.AddExtension("x-kubernetes-group-version-kind", []any{v.gvk(v.d.def.Spec.Names.Kind)})
	return out, nil
}

// openTree is the schema as a tree with all its defaults, which is the caller's
// own; nil where there is none that could be shown.
func (v *Version) openTree() (*structural.Structural, error) {
	props, err := v.schema()
	if err != nil || props == nil {
		return nil, err
	}
	s, err := structural.NewStructural(props)
	if err != nil || len(structural.ValidateStructural(nil, s)) > 0 {
		return nil, nil //nolint:nilerr // upstream shows an object without fields
	}
	return s.Unfold(), nil
}

func (v *Version) gvk(kind string) map[string]any {
	return map[string]any{"group": v.d.def.Spec.Group, "version": v.spec.Name, "kind": kind}
}

const objectMetaDoc = "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"

// listSchema is the schema of the list kind.
func (v *Version) listSchema(v2 bool) *spec.Schema {
	names, prefix := v.d.def.Spec.Names, refV3
	if v2 {
		prefix = refV2
	}
	items := spec.ArrayProperty(spec.RefSchema(prefix + v.modelName(names.Kind))).WithDescription(
		fmt.Sprintf("List of %s. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md", names.Plural))
	s := new(spec.Schema).Typed("object", "").
		WithDescription(fmt.Sprintf("%s is a list of %s", names.ListKind, names.Kind)).
		WithRequired("items").
		SetProperty("items", *items).
		SetProperty("metadata", metaRef("ListMeta",
			"Standard list metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds", v2))
	typeMeta(s)
	s.AddExtension("x-kubernetes-group-version-kind", []any{v.gvk(names.ListKind)})
	return s
}

// metaRef refers to a type of the metadata. Version 3 lets nothing stand beside
// a reference.
func metaRef(name, doc string, v2 bool) spec.Schema {
	if v2 {
		return *spec.RefSchema(refV2 + metaModels + name).WithDescription(doc)
	}
	return *new(spec.Schema).WithAllOf(*spec.RefSchema(refV3 + metaModels + name)).WithDescription(doc)
}

func typeMeta(s *spec.Schema) {
	docs := metav1.TypeMeta{}.SwaggerDoc()
	for _, name := range []string{"apiVersion", "kind"} {
		s.SetProperty(name, *spec.StringProperty().WithDescription(docs[name]))
	}
}

// embedded gives the objects in an object what all objects have.
func embedded(s *spec.Schema, v2 bool) {
	if s == nil {
		return
	}
	for k, p := range s.Properties {
		embedded(&p, v2)
		s.Properties[k] = p
	}
	if s.Items != nil {
		embedded(s.Items.Schema, v2)
	}
	if s.AdditionalProperties != nil {
		embedded(s.AdditionalProperties.Schema, v2)
	}
	if is(s, "x-kubernetes-preserve-unknown-fields") && v2 || !is(s, "x-kubernetes-embedded-resource") {
		return
	}
	const more = " More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#"
	s.SetProperty("apiVersion", *spec.StringProperty().WithDescription("apiVersion defines the versioned schema of this representation of an object." + more + "resources"))
	s.SetProperty("kind", *spec.StringProperty().WithDescription("kind is a string value representing the type of this object. In CamelCase." + more + "types-kinds"))
	s.SetProperty("metadata", metaRef("ObjectMeta", objectMetaDoc, v2))
	for _, name := range []string{"kind", "apiVersion"} {
		if !slices.Contains(s.Required, name) {
			s.Required = append(s.Required, name)
		}
	}
}

func is(s *spec.Schema, extension string) bool {
	yes, ok := s.Extensions.GetBool(extension)
	return ok && yes
}

// dropDefaults removes all defaults: version 2 has none.
func dropDefaults(s *spec.Schema) {
	if s == nil {
		return
	}
	s.Default = nil
	for k, p := range s.Properties {
		dropDefaults(&p)
		s.Properties[k] = p
	}
	if s.Items != nil {
		dropDefaults(s.Items.Schema)
	}
	if s.AdditionalProperties != nil {
		dropDefaults(s.AdditionalProperties.Schema)
	}
}
