// Command kinds writes the conversations that every kind goes through, from one
// good object of each (kinds.yaml): a file per group in the directory given.
// Responses are recorded afterwards.
package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/writ-os/writ/ci/differential/exchange"
)

//go:embed kinds.yaml
var manifests string

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: kinds DIRECTORY")
	}
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(dir string) error {
	kinds, err := parse(manifests)
	if err != nil {
		return err
	}
	files := map[string]*bytes.Buffer{}
	for _, k := range kinds {
		f := files[k.group()]
		if f == nil {
			f = &bytes.Buffer{}
			fmt.Fprintf(f, "What every kind of %s goes through. Written by ../kinds.\n%s", k.group(), setup)
			files[k.group()] = f
		}
		f.WriteString(k.conversation())
	}
	for group, f := range files {
		if _, err := exchange.Parse(f.Bytes()); err != nil {
			return fmt.Errorf("%s: %w", group, err)
		}
		if err := os.WriteFile(filepath.Join(dir, "kind-"+group+".txtar"), f.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// setup is the same in every file; only the first of them creates.
const setup = `-- namespace/request --
PATCH /api/v1/namespaces/d-kinds?fieldManager=setup
Content-Type: application/apply-patch+yaml
Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1

{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "d-kinds"}}
-- account/request --
PATCH /api/v1/namespaces/d-kinds/serviceaccounts/default?fieldManager=setup
Content-Type: application/apply-patch+yaml
Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1

{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
`

// kind is one row.
type kind struct {
	plural                 string
	cluster, status, scale bool
	stays                  bool // after delete
	object                 map[string]any
}

func parse(text string) (kinds []kind, err error) {
	for _, doc := range strings.Split(text, "\n---\n#: ")[1:] {
		head, body, _ := strings.Cut(doc, "\n")
		k := kind{}
		for i, word := range strings.Fields(head) {
			switch {
			case i == 0:
				k.plural = word
			case word == "cluster":
				k.cluster = true
			case word == "status":
				k.status = true
			case word == "scale":
				k.scale = true
			case word == "stays":
				k.stays = true
			default:
				return nil, fmt.Errorf("%q: %q is no property", head, word)
			}
		}
		if err := yaml.Unmarshal([]byte(body), &k.object); err != nil {
			return nil, fmt.Errorf("%s: %w", head, err)
		}
		kinds = append(kinds, k)
	}
	return kinds, nil
}

func (k kind) apiVersion() string { return k.object["apiVersion"].(string) }

func (k kind) group() string {
	group, _, ok := strings.Cut(k.apiVersion(), "/")
	if !ok {
		return "core"
	}
	return group
}

// name is what the manifest wants, or the usual one.
func (k kind) name() string {
	if m, ok := k.object["metadata"].(map[string]any); ok {
		return m["name"].(string)
	}
	return "d-kind"
}

func (k kind) collection() string {
	path := "/apis/" + k.apiVersion()
	if k.group() == "core" {
		path = "/api/v1"
	}
	if !k.cluster {
		path += "/namespaces/d-kinds"
	}
	return path + "/" + k.plural
}

// with is the object as JSON, with metadata and other fields set.
func (k kind) with(metadata map[string]any, more map[string]any) string {
	o := map[string]any{}
	for key, v := range k.object {
		o[key] = v
	}
	o["metadata"] = metadata
	for key, v := range more {
		o[key] = v
	}
	return encode(o)
}

func encode(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		log.Panicf("encode %v: %v", v, err) // it came from YAML
	}
	return string(data)
}
