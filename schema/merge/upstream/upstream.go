// Package upstream reads the types by which fields merge out of upstream's
// packages, for the generator and for the test that holds what was generated
// against them. No program links it.
package upstream

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregated "k8s.io/kube-aggregator/pkg/client/applyconfiguration"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"

	"github.com/writ-os/writ/schema"
)

// Builtin are the types of the built-in kinds and of APIServices. Where both
// have a type of one name it is the same.
func Builtin() ([]smd.TypeDef, error) {
	core, err := typesOf(applyconfigurations.NewTypeConverter(schema.Scheme), &corev1.Pod{}, corev1.SchemeGroupVersion.WithKind("Pod"))
	if err != nil {
		return nil, err
	}
	services, err := typesOf(aggregated.NewTypeConverter(schema.Scheme), &apiregistration.APIService{}, apiregistration.SchemeGroupVersion.WithKind("APIService"))
	if err != nil {
		return nil, err
	}
	byName := map[string]smd.TypeDef{}
	for _, t := range slices.Concat(core, services) {
		if have, ok := byName[t.Name]; ok && !reflect.DeepEqual(have, t) {
			return nil, fmt.Errorf("there are two types of the name %s", t.Name)
		}
		byName[t.Name] = t
	}
	return sorted(maps.Values(byName)), nil
}

func sorted(types iter.Seq[smd.TypeDef]) []smd.TypeDef {
	return slices.SortedFunc(types, func(a, b smd.TypeDef) int { return cmp.Compare(a.Name, b.Name) })
}

// typesOf are all types that a converter knows: each value that it makes holds
// all of them.
func typesOf(c managedfields.TypeConverter, o runtime.Object, kind runtimeschema.GroupVersionKind) ([]smd.TypeDef, error) {
	o.GetObjectKind().SetGroupVersionKind(kind)
	v, err := c.ObjectToTyped(o)
	if err != nil {
		return nil, fmt.Errorf("read types by %v: %w", kind, err)
	}
	return v.Schema().Types, nil
}

// Definitions are the types of CustomResourceDefinitions, from their OpenAPI
// schemas: the apply configurations of upstream's client leave them out. Types
// of metadata are not quite those of other kinds.
func Definitions() ([]smd.TypeDef, error) {
	ref := func(name string) spec.Ref { return spec.MustCreateRef("#/components/schemas/" + name) }
	models := map[string]*spec.Schema{}
	for name, d := range openapi.GetOpenAPIDefinitions(ref) {
		models[name] = &d.Schema
	}
	types, err := schemaconv.ToSchemaFromOpenAPI(models, false)
	if err != nil {
		return nil, fmt.Errorf("read types of definitions: %w", err)
	}
	for _, t := range types.Types {
		if t.Map != nil { // they come in the order of a map
			slices.SortFunc(t.Fields, func(a, b smd.StructField) int { return cmp.Compare(a.Name, b.Name) })
		}
	}
	return sorted(slices.Values(types.Types)), nil
}
