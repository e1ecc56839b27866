package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// object is a JSON object of a document.
type object = map[string]any

// builder collects the schemas of one document.
type builder struct {
	src     *sources
	schemas object
}

// definitionName is the name of a type in a document: the path of its package
// in reverse domain order.
func definitionName(t reflect.Type) string {
	path := t.PkgPath()
	switch {
	case strings.HasPrefix(path, "github.com/writ-os/writ/schema/"):
		path = "dev.writ." + strings.TrimPrefix(path, "github.com/writ-os/writ/schema/")
	case strings.HasPrefix(path, "k8s.io/"):
		path = "io.k8s." + strings.TrimPrefix(path, "k8s.io/")
	}
	return strings.ReplaceAll(path, "/", ".") + "." + t.Name()
}

// What types say of themselves, for generators like this one.
type (
	schemaTyper  interface{ OpenAPISchemaType() []string }
	schemaFormat interface{ OpenAPISchemaFormat() string }
	schemaOneOf  interface{ OpenAPIV3OneOfTypes() []string }
)

// ref makes sure that a named type is in the document and refers to it.
func (b *builder) ref(t reflect.Type) (object, error) {
	name := definitionName(t)
	if _, ok := b.schemas[name]; !ok {
		b.schemas[name] = object{} // types refer to each other in circles
		def, err := b.define(t)
		if err != nil {
			return nil, fmt.Errorf("define %s: %w", name, err)
		}
		b.schemas[name] = def
	}
	return object{"$ref": "#/components/schemas/" + name}, nil
}

// define describes a named type.
func (b *builder) define(t reflect.Type) (object, error) {
	doc, err := b.src.find(t.PkgPath(), t.Name())
	if err != nil {
		return nil, err
	}
	def := object{}
	if doc.comment.text != "" {
		def["description"] = doc.comment.text
	}
	if own := ownSchema(t); own != nil {
		for k, v := range own {
			def[k] = v
		}
		return def, nil
	}
	def["type"] = "object"
	props, required := object{}, []string{}
	if err := b.properties(t, doc, props, &required); err != nil {
		return nil, err
	}
	if len(props) > 0 {
		def["properties"] = props
	}
	if len(required) > 0 {
		slices.Sort(required)
		def["required"] = required
	}
	return def, nil
}

// ownSchema is the schema of types that encode themselves.
func ownSchema(t reflect.Type) object {
	zero := reflect.New(t).Interface()
	typer, ok := zero.(schemaTyper)
	if !ok {
		if _, custom := zero.(json.Marshaler); custom || t.Name() == "RawExtension" || t.Name() == "FieldsV1" {
			return object{"type": "object"}
		}
		return nil
	}
	own := object{}
	if types := typer.OpenAPISchemaType(); len(types) > 0 {
		own["type"] = types[0]
	}
	if f, ok := zero.(schemaFormat); ok && f.OpenAPISchemaFormat() != "" {
		own["format"] = f.OpenAPISchemaFormat()
	}
	if o, ok := zero.(schemaOneOf); ok {
		var one []object
		for _, typ := range o.OpenAPIV3OneOfTypes() {
			one = append(one, object{"type": typ})
		}
		delete(own, "type")
		own["oneOf"] = one
	}
	return own
}

// properties describes the fields of a struct, those of inlined structs too.
func (b *builder) properties(t reflect.Type, doc *typeDoc, props object, required *[]string) error {
	for i := range t.NumField() {
		f := t.Field(i)
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		if name == "" {
			inner := f.Type
			for inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			idoc, err := b.src.find(inner.PkgPath(), inner.Name())
			if err != nil {
				return err
			}
			if err := b.properties(inner, idoc, props, required); err != nil {
				return err
			}
			continue
		}
		c := doc.fields[f.Name]
		p, err := b.property(f, c)
		if err != nil {
			return fmt.Errorf("field %s: %w", f.Name, err)
		}
		props[name] = p
		omit := strings.Contains(opts, "omitempty") || strings.Contains(opts, "omitzero")
		if c.has("required") || !omit && !c.has("optional") {
			*required = append(*required, name)
		}
	}
	return nil
}

// property describes one field.
func (b *builder) property(f reflect.StructField, c comment) (object, error) {
	p, err := b.value(f.Type)
	if err != nil {
		return nil, err
	}
	if ref, ok := p["$ref"]; ok {
		p = object{"allOf": []object{{"$ref": ref}}}
	}
	text := c.text
	if values, err := b.enum(f.Type); err != nil {
		return nil, err
	} else if len(values) > 0 {
		p["enum"], text = enumSchema(values, text)
	}
	if text != "" {
		p["description"] = text
	}
	if v := c.marker("default"); v != "" {
		var def any
		if json.Unmarshal([]byte(v), &def) == nil {
			p["default"] = def
		}
	}
	addExtensions(p, f, c)
	return p, nil
}

// addExtensions says how lists and maps are merged.
func addExtensions(p object, f reflect.StructField, c comment) {
	for marker, ext := range map[string]string{
		"listType": "x-kubernetes-list-type", "mapType": "x-kubernetes-map-type", "structType": "x-kubernetes-map-type",
	} {
		if v := c.marker(marker); v != "" {
			p[ext] = v
		}
	}
	if keys := c.markers["listMapKey"]; len(keys) > 0 {
		p["x-kubernetes-list-map-keys"] = keys
	}
	if v := f.Tag.Get("patchStrategy"); v != "" {
		p["x-kubernetes-patch-strategy"] = v
	}
	if v := f.Tag.Get("patchMergeKey"); v != "" {
		p["x-kubernetes-patch-merge-key"] = v
	}
}

func (b *builder) enum(t reflect.Type) ([]enumValue, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.String || t.PkgPath() == "" {
		return nil, nil
	}
	doc, err := b.src.find(t.PkgPath(), t.Name())
	if err != nil {
		return nil, err
	}
	return doc.values, nil
}

func enumSchema(values []enumValue, text string) ([]string, string) {
	values = slices.Clone(values)
	slices.SortFunc(values, func(a, b enumValue) int { return strings.Compare(a.value, b.value) })
	var names []string
	text += "\n\nPossible enum values:"
	for _, v := range values {
		if slices.Contains(names, v.value) {
			continue
		}
		names = append(names, v.value)
		text += "\n - `\"" + v.value + "\"`"
		if v.doc != "" {
			text += " " + strings.ReplaceAll(v.doc, "\n", " ")
		}
	}
	return names, strings.TrimSpace(text)
}

// value describes what a field, an item or a map holds.
func (b *builder) value(t reflect.Type) (object, error) {
	switch t.Kind() {
	case reflect.Pointer:
		return b.value(t.Elem())
	case reflect.Struct:
		return b.ref(t)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return object{"type": "string", "format": "byte"}, nil
		}
		items, err := b.value(t.Elem())
		return object{"type": "array", "items": items}, err
	case reflect.Map:
		elem, err := b.value(t.Elem())
		return object{"type": "object", "additionalProperties": elem}, err
	case reflect.String:
		return object{"type": "string"}, nil
	case reflect.Bool:
		return object{"type": "boolean"}, nil
	case reflect.Int, reflect.Int32, reflect.Uint8, reflect.Uint32:
		return object{"type": "integer", "format": "int32"}, nil
	case reflect.Int64, reflect.Uint64:
		return object{"type": "integer", "format": "int64"}, nil
	case reflect.Float32, reflect.Float64:
		return object{"type": "number", "format": "double"}, nil
	case reflect.Interface:
		return object{}, nil
	}
	return nil, fmt.Errorf("type %s has no schema", t)
}
