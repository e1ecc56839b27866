package registry

import (
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	aggregated "k8s.io/kube-aggregator/pkg/client/applyconfiguration"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/writ-os/writ/schema"
)

// mergeTypes know of every built-in kind how its fields merge: which lists have
// keys, which values are one. Each set is read when first asked for.
type mergeTypes struct {
	builtin     func() managedfields.TypeConverter // what client-go knows
	definitions func() managedfields.TypeConverter // CustomResourceDefinition
	services    func() managedfields.TypeConverter // APIService
}

func newMergeTypes() *mergeTypes {
	once := func(of func(*runtime.Scheme) managedfields.TypeConverter) func() managedfields.TypeConverter {
		return sync.OnceValue(func() managedfields.TypeConverter { return of(schema.Scheme) })
	}
	return &mergeTypes{
		builtin:     once(applyconfigurations.NewTypeConverter),
		definitions: once(definitionTypes),
		services:    once(aggregated.NewTypeConverter),
	}
}

// of returns the types of a resource. Kinds of our own, and the scale, are told
// by their values: their lists have no keys.
func (t *mergeTypes) of(r *schema.Resource) managedfields.TypeConverter {
	switch {
	case r.Custom != nil:
		return r.Custom.Types()
	case r == scaleRow || !r.HasProtobuf():
		return managedfields.NewDeducedTypeConverter()
	case r.Group == "apiextensions.k8s.io":
		return t.definitions()
	case r.Group == "apiregistration.k8s.io":
		return t.services()
	}
	return t.builtin()
}

// definitionTypes reads the types of definitions from their OpenAPI schemas:
// unlike those of other kinds, the apply configurations of upstream's client
// leave them out.
func definitionTypes(scheme *runtime.Scheme) managedfields.TypeConverter {
	models := map[string]*spec.Schema{}
	for name, d := range openapi.GetOpenAPIDefinitions(modelRef) {
		models[name] = &d.Schema
	}
	types, err := schemaconv.ToSchemaFromOpenAPI(models, false)
	if err != nil { // tested: the schemas are compiled in
		return managedfields.NewDeducedTypeConverter()
	}
	parser := &typed.Parser{}
	types.CopyInto(&parser.Schema)
	return managedfields.NewSchemeTypeConverter(scheme, parser)
}

var _ common.ReferenceCallback = modelRef

func modelRef(name string) spec.Ref { return spec.MustCreateRef("#/components/schemas/" + name) }
