// Package merge knows of every kind how its fields merge: which lists have
// keys, and which values are one (KEP-555, server-side apply).
//
// It watches nothing and owns nothing. The types are upstream's own, generated
// from its packages, read when first asked for and shared by all that merge and
// compare in a process.
package merge

import (
	"bytes"
	_ "embed"
	"encoding/gob"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/util/managedfields"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/writ-os/writ/schema"
)

//go:generate go run ./gen

var (
	//go:embed builtin.gob
	builtinTypes []byte
	//go:embed definitions.gob
	definitionTypes []byte

	builtin     = sync.OnceValue(func() managedfields.TypeConverter { return converter(builtinTypes) })
	definitions = sync.OnceValue(func() managedfields.TypeConverter { return converter(definitionTypes) })
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
	}
	return builtin()
}

func converter(encoded []byte) managedfields.TypeConverter {
	types, err := decode(encoded)
	if err != nil {
		panic(err) // tested: they are compiled in
	}
	return managedfields.NewSchemeTypeConverter(schema.Scheme, &typed.Parser{Schema: smd.Schema{Types: types}})
}

// Defaults may be empty maps, as YAML reads them and as JSON does.
func init() {
	gob.Register(map[any]any{})
	gob.Register(map[string]any{})
}

func decode(encoded []byte) (types []smd.TypeDef, err error) {
	if err := gob.NewDecoder(bytes.NewReader(encoded)).Decode(&types); err != nil {
		return nil, fmt.Errorf("read the types of upstream's kinds: %w", err)
	}
	return types, nil
}
