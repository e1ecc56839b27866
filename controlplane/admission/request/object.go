package request

import (
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/defaults"
)

// Decode reads JSON into a new object of the same type as another.
func Decode(like schema.Object, data []byte) (schema.Object, error) {
	if _, ok := like.(*unstructured.Unstructured); ok {
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(data); err != nil {
			return nil, err
		}
		return u, nil
	}
	o, ok := reflect.New(reflect.TypeOf(like).Elem()).Interface().(schema.Object)
	if !ok {
		return nil, fmt.Errorf("decode: %T is no object", like)
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, o); err != nil {
		return nil, err
	}
	return o, nil
}

// Typed makes an object of the same type as another out of any object with the
// same fields: what a merge returns is unstructured.
func Typed(like schema.Object, o runtime.Object) (schema.Object, error) {
	if t, ok := o.(schema.Object); ok && reflect.TypeOf(t) == reflect.TypeOf(like) {
		return t, nil
	}
	data, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	return Decode(like, data)
}

// Default fills in an object that a plugin has changed. Custom resources have
// their defaults from the registry.
func Default(o schema.Object) {
	if _, ok := o.(*unstructured.Unstructured); !ok {
		defaults.Apply(o)
	}
}

// Interfaces is what upstream's patchers want to know of types.
type Interfaces struct{}

// GetObjectCreater implements admission.ObjectInterfaces.
func (Interfaces) GetObjectCreater() runtime.ObjectCreater { return schema.Scheme }

// GetObjectTyper implements admission.ObjectInterfaces.
func (Interfaces) GetObjectTyper() runtime.ObjectTyper { return typer{} }

// GetObjectDefaulter implements admission.ObjectInterfaces.
func (Interfaces) GetObjectDefaulter() runtime.ObjectDefaulter { return defaulter{} }

// GetObjectConvertor implements admission.ObjectInterfaces.
func (Interfaces) GetObjectConvertor() runtime.ObjectConvertor { return schema.Scheme }

// GetEquivalentResourceMapper implements admission.ObjectInterfaces; matching
// does without.
func (Interfaces) GetEquivalentResourceMapper() runtime.EquivalentResourceMapper { return nil }

type defaulter struct{}

func (defaulter) Default(o runtime.Object) {
	if obj, ok := o.(schema.Object); ok {
		Default(obj)
	}
}

// typer knows the Go types and takes the word of unstructured objects.
type typer struct{}

func (typer) ObjectKinds(o runtime.Object) ([]kschema.GroupVersionKind, bool, error) {
	if u, ok := o.(runtime.Unstructured); ok {
		return []kschema.GroupVersionKind{u.GetObjectKind().GroupVersionKind()}, false, nil
	}
	return schema.Scheme.ObjectKinds(o)
}

func (typer) Recognizes(gvk kschema.GroupVersionKind) bool { return true }
