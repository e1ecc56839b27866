package custom

import (
	"errors"
	"fmt"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
)

// Prune implements schema.Custom. Metadata that cannot be read is dropped, as
// upstream does with what it has stored; use Decode for what clients send.
func (v *Version) Prune(o map[string]any) []string {
	unknown, _ := v.decode(o, true)
	return unknown
}

// Decode is Prune for requests: metadata of the wrong type is an error, with
// upstream's text, and nothing may be done with o then.
func (v *Version) Decode(o map[string]any) (unknown []string, err error) {
	return v.decode(o, false)
}

// Default implements schema.Custom.
func (v *Version) Default(o map[string]any) { defaulting.Default(o, v.shape().s) }

// decode does what decoding into a Go type does for built-in kinds: fields that
// the schema does not know go, as do nulls where null is no value, and metadata
// (of the object and of objects in it) gets its types.
func (v *Version) decode(o map[string]any, dropInvalid bool) ([]string, error) {
	apiVersion, hasVersion, err := text(o, "apiVersion")
	if err != nil && !dropInvalid {
		return nil, err
	}
	kind, hasKind, err := text(o, "kind")
	if err != nil && !dropInvalid {
		return nil, err
	}
	meta, hasMeta, unknown, err := objectmeta.GetObjectMetaWithOptions(o, objectmeta.ObjectMetaOptions{
		DropMalformedFields: dropInvalid, ReturnUnknownFieldPaths: true,
	})
	if err != nil {
		if !dropInvalid {
			return nil, err
		}
		delete(o, "metadata")
	}
	sh := v.shape()
	if sh.err != nil {
		return unknown, errors.New("the server could not properly serve the CR schema")
	}
	if !v.d.def.Spec.PreserveUnknownFields {
		unknown = append(unknown, pruning.PruneWithOptions(o, sh.s, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})...)
		defaulting.PruneNonNullableNullsWithoutDefaults(o, sh.s)
	}
	invalid, paths := objectmeta.CoerceWithOptions(nil, o, sh.s, false, objectmeta.CoerceOptions{
		DropInvalidFields: dropInvalid, ReturnUnknownFieldPaths: true,
	})
	if invalid != nil {
		return nil, invalid
	}
	unknown = append(unknown, paths...)
	if hasVersion {
		o["apiVersion"] = apiVersion
	}
	if hasKind {
		o["kind"] = kind
	}
	if hasMeta && meta != nil {
		if dropInvalid && meta.Generation == 0 && meta.UID != "" { // stored before custom resources had one
			meta.Generation = 1
		}
		if err := objectmeta.SetObjectMeta(o, meta); err != nil {
			return nil, err
		}
		if m, ok := o["metadata"].(map[string]any); ok && m["creationTimestamp"] == nil {
			delete(m, "creationTimestamp")
		}
	}
	return unknown, nil
}

// text reads a string field; the error is upstream's.
func text(o map[string]any, name string) (value string, found bool, err error) {
	x, ok := o[name]
	if !ok {
		return "", false, nil
	}
	if value, ok = x.(string); !ok {
		return "", false, fmt.Errorf(".%s accessor error: %v is of the type %T, expected string", name, x, x)
	}
	return value, true, nil
}
