// Command gen writes the types by which fields of upstream's kinds merge, from
// upstream's own packages. There they are YAML and OpenAPI, and to read those
// took a third of the processor time of a server's start.
package main

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"log"
	"os"

	smd "sigs.k8s.io/structured-merge-diff/v6/schema"

	"github.com/writ-os/writ/schema/merge/upstream"
)

func main() {
	gob.Register(map[any]any{}) // defaults, as YAML reads them
	gob.Register(map[string]any{})
	if err := errors.Join(generate("builtin.gob", upstream.Builtin), generate("definitions.gob", upstream.Definitions)); err != nil {
		log.Fatal(err)
	}
}

func generate(name string, read func() ([]smd.TypeDef, error)) error {
	types, err := read()
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := gob.NewEncoder(&out).Encode(types); err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	return os.WriteFile(name, out.Bytes(), 0o644) //nolint:gosec // it is source
}
