// Command gen writes everything in schema/ that is derived from the one
// definition of each kind: the resource table in Go, the flat CUE definitions,
// the defaults in Go and the JSON Schemas.
//
// It reads schema/cue/resources.cue (the table), schema/cue/constraints (what
// people write about fields) and the Go types of k8s.io/api. It writes only
// files named zz_*. Run it with `go generate ./schema`; a test compares what
// it would write with what is checked in.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// run generates all files below dir, the folder schema/, and writes those
// that changed.
func run(dir string) error {
	files, err := generate(dir)
	if err != nil {
		return err
	}
	for name, data := range files {
		path := filepath.Join(dir, name)
		if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
		fmt.Println("wrote", path)
	}
	return nil
}

// generate returns the generated files by their path below dir. It writes
// nothing.
func generate(dir string) (map[string][]byte, error) {
	table, err := readTable(filepath.Join(dir, "cue", "resources.cue"))
	if err != nil {
		return nil, fmt.Errorf("read resource table: %w", err)
	}
	docs, err := readDocs(table)
	if err != nil {
		return nil, fmt.Errorf("read Go sources: %w", err)
	}
	files := map[string][]byte{}
	if files["zz_resources.go"], err = writeTable(table, docs); err != nil {
		return nil, fmt.Errorf("write resource table: %w", err)
	}
	con, err := readConstraints(filepath.Join(dir, "cue", "constraints"))
	if err != nil {
		return nil, fmt.Errorf("read constraints: %w", err)
	}
	m, err := readModel(table, docs, con)
	if err != nil {
		return nil, err
	}
	cueFiles, err := writeCUE(m)
	if err != nil {
		return nil, fmt.Errorf("write definitions: %w", err)
	}
	for name, data := range cueFiles {
		files["cue/"+name] = data
	}
	if files["defaults/zz_defaults.go"], err = writeDefaults(filepath.Join(dir, "defaults"), table, m); err != nil {
		return nil, fmt.Errorf("write defaults: %w", err)
	}
	if files["validate/zz_schemas.txt"], err = writeSchemas(table, m, cueFiles); err != nil {
		return nil, fmt.Errorf("write JSON Schemas: %w", err)
	}
	if m.err != nil {
		return nil, m.err
	}
	return files, nil
}
