// Command gen writes the OpenAPI documents of the resource table: one
// compressed JSON file for each group and version, and one of version 2 for all.
//
//	Go types (reflection) + comments and markers (their source) ──> schemas
//	resource table ──> paths
//
// It reads the source of k8s.io/api from the module cache and is run by
// go generate when the table or a type changes.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	out := flag.String("out", "docs", "directory to write to")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(out string) error {
	docs, err := documents()
	if err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(out, "*.json.gz"))
	if err != nil {
		return err
	}
	for _, f := range old {
		if err := os.Remove(f); err != nil {
			return err
		}
	}
	for path, doc := range docs {
		data, err := compress(doc)
		if err != nil {
			return fmt.Errorf("encode %s: %w", path, err)
		}
		name := strings.ReplaceAll(path, "/", "__") + ".json.gz"
		if err := os.WriteFile(filepath.Join(out, name), data, 0o644); err != nil {
			return err
		}
	}
	return writeV2(filepath.Join(out, "v2"), docs)
}

func writeV2(dir string, docs map[string]object) error {
	doc, pb, err := swagger(docs)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, data := range map[string][]byte{"swagger.json.gz": doc, "swagger.pb.gz": pb} {
		z, err := deflate(data)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), z, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// compress encodes a document the same way each time: keys sorted, no time stamp.
func compress(doc object) ([]byte, error) {
	data, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	return deflate(data)
}

func deflate(data []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(data); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
