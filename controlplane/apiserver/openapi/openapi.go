// Package openapi holds the OpenAPI v3 documents of what the API server serves,
// one for each group and version.
//
// The documents are generated from the Go types of the resource table and the
// comments in their source, and embedded compressed: serving one decodes
// nothing, and costs no time at start.
package openapi

import (
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
)

//go:generate go run ./gen -out docs

//go:embed docs/*.json.gz
var files embed.FS

// Document is the description of one group and version.
type Document struct {
	// Path is "api/v1" or "apis/apps/v1".
	Path string
	// Gzip is the JSON, compressed.
	Gzip []byte
	// Hash changes with the content.
	Hash string
}

// JSON decompresses the document.
func (d *Document) JSON() ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(d.Gzip))
	if err != nil {
		return nil, fmt.Errorf("open document %s: %w", d.Path, err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		return nil, fmt.Errorf("read document %s: %w", d.Path, err)
	}
	return data, nil
}

// load reads the embedded files at the first use.
var load = sync.OnceValue(func() map[string]*Document {
	docs := map[string]*Document{}
	entries, err := files.ReadDir("docs")
	if err != nil {
		panic("openapi: read embedded documents: " + err.Error())
	}
	for _, e := range entries {
		data, err := files.ReadFile("docs/" + e.Name())
		if err != nil {
			panic("openapi: read embedded document: " + err.Error())
		}
		path := strings.ReplaceAll(strings.TrimSuffix(e.Name(), ".json.gz"), "__", "/")
		sum := sha512.Sum512(data)
		docs[path] = &Document{Path: path, Gzip: data, Hash: fmt.Sprintf("%X", sum[:])}
	}
	return docs
})

// Lookup returns the document of "api/v1" or "apis/apps/v1"; nil when there is
// none.
func Lookup(path string) *Document { return load()[path] }

// Index returns the document of /openapi/v3: where the others are, with their
// hashes, so that clients fetch only what has changed.
var Index = sync.OnceValue(func() []byte {
	type entry struct {
		URL string `json:"serverRelativeURL"`
	}
	paths := map[string]entry{}
	for path, d := range load() {
		paths[path] = entry{"/openapi/v3/" + path + "?hash=" + d.Hash}
	}
	data, err := json.Marshal(map[string]any{"paths": paths})
	if err != nil {
		panic("openapi: encode index: " + err.Error()) // strings only
	}
	return data
})
