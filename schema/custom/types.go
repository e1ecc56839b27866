package custom

import (
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Types implements schema.Custom. The converter knows all versions of the
// definition, since an object may have been written in another one. Where there
// is no schema types are deduced from the values, as upstream does.
func (v *Version) Types() managedfields.TypeConverter {
	v.d.typesMu.Lock()
	defer v.d.typesMu.Unlock()
	if v.d.types == nil {
		v.d.types = v.d.makeTypes()
	}
	return v.d.types
}

func (d *definition) makeTypes() managedfields.TypeConverter {
	models, err := d.models()
	if err != nil {
		return managedfields.NewDeducedTypeConverter()
	}
	c, err := managedfields.NewTypeConverter(models, d.def.Spec.PreserveUnknownFields)
	if err != nil {
		return managedfields.NewDeducedTypeConverter()
	}
	return c
}

// models are the schemas of all versions, and of what they refer to.
func (d *definition) models() (map[string]*spec.Schema, error) {
	shared, err := sharedModels()
	if err != nil {
		return nil, err
	}
	for _, v := range d.versions {
		s, err := v.openAPISchema(false)
		if err != nil {
			return nil, err
		}
		shared[v.modelName(acceptedNames(d.def).Kind)] = s
	}
	return shared, nil
}
