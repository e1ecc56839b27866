package plan

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
	"github.com/writ-os/writ/schema/v1alpha1"
)

// The types of the built-in kinds, read when first asked for.
var (
	builtin     = sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(schema.Scheme) })
	services    = sync.OnceValue(func() managedfields.TypeConverter { return aggregated.NewTypeConverter(schema.Scheme) })
	definitions = sync.OnceValue(definitionTypes)
)

// converter knows the lists and their keys of a kind, as the server does that
// merges what is applied.
func converter(r *schema.Resource) managedfields.TypeConverter {
	switch {
	case r.Custom != nil:
		return r.Custom.Types()
	case r.Group == v1alpha1.GroupVersion.Group:
		return managedfields.NewDeducedTypeConverter()
	case r.Group == "apiextensions.k8s.io":
		return definitions()
	case r.Group == "apiregistration.k8s.io":
		return services()
	}
	return builtin()
}

// definitionTypes reads the types of definitions from their OpenAPI schemas:
// the apply configurations of upstream's client leave them out.
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
