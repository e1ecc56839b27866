// Package merge knows of every kind how its fields merge: which lists have
// keys, and which values are one (KEP-555, server-side apply).
//
// It watches nothing and owns nothing. The types are upstream's own, read when
// first asked for and shared by all that merge and compare in a process.
package merge

import (
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	aggregated "k8s.io/kube-aggregator/pkg/client/applyconfiguration"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/writ-os/writ/schema"
)

var (
	builtin     = sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(schema.Scheme) })
	services    = sync.OnceValue(func() managedfields.TypeConverter { return aggregated.NewTypeConverter(schema.Scheme) })
	definitions = sync.OnceValue(definitionTypes)
)

// Types returns the types of a resource. Kinds of our own are told by their
// values: their lists have no keys.
func Types(r *schema.Resource) managedfields.TypeConverter {
	switch {
	case r.Custom != nil:
		return r.Custom.Types()
	case !r.HasProtobuf():
		return managedfields.NewDeducedTypeConverter()
	case r.Group == "apiextensions.k8s.io":
		return definitions()
	case r.Group == "apiregistration.k8s.io":
		return services()
	}
	return builtin()
}

// definitionTypes reads the types of definitions from their OpenAPI schemas:
// unlike those of other kinds, the apply configurations of upstream's client
// leave them out.
func definitionTypes() managedfields.TypeConverter {
	ref := func(name string) spec.Ref { return spec.MustCreateRef("#/components/schemas/" + name) }
	models := map[string]*spec.Schema{}
	for name, d := range openapi.GetOpenAPIDefinitions(ref) {
		models[name] = &d.Schema
	}
	types, err := schemaconv.ToSchemaFromOpenAPI(models, false)
	if err != nil { // tested: the schemas are compiled in
		return managedfields.NewDeducedTypeConverter()
	}
	parser := &typed.Parser{}
	types.CopyInto(&parser.Schema)
	return managedfields.NewSchemeTypeConverter(schema.Scheme, parser)
}
