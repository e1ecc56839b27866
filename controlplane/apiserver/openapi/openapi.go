// Package openapi holds the OpenAPI documents of what the API server serves: in
// v3 one for each group and version, in v2 one for all.
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
	// Gzip is the document, compressed; nil where Plain is set.
	Gzip []byte
	// Plain is the document as it is, where it is at hand.
	Plain []byte
	// Hash changes with the content.
	Hash string
}

// Compress makes a document of data.
func Compress(path string, data []byte) (*Document, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err == nil {
		_, err = z.Write(data)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("compress document %s: %w", path, err)
	}
	return newDocument(path, b.Bytes()), nil
}

// JSON decompresses the document.
func (d *Document) JSON() ([]byte, error) {
	if d.Plain != nil {
		return d.Plain, nil
	}
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
		docs[path] = newDocument(path, data)
	}
	return docs
})

func newDocument(path string, data []byte) *Document {
	return &Document{Path: path, Gzip: data, Hash: Hash(data)}
}

// Hash is the form in which the hash of a document stands in its address.
func Hash(data []byte) string { return fmt.Sprintf("%X", sha512.Sum512(data)) }

// Lookup returns the document of "api/v1" or "apis/apps/v1"; nil when there is
// none.
func Lookup(path string) *Document { return load()[path] }

// Index returns the document of /openapi/v3: where the others are, with their
// hashes, so that clients fetch only what has changed. more are the hashes of
// documents beside the embedded ones, by path.
func Index(more map[string]string) []byte {
	type entry struct {
		URL string `json:"serverRelativeURL"`
	}
	paths := map[string]entry{}
	add := func(path, hash string) { paths[path] = entry{URL(path, hash)} }
	for path, d := range load() {
		add(path, d.Hash)
	}
	for path, hash := range more {
		add(path, hash)
	}
	data, err := json.Marshal(map[string]any{"paths": paths})
	if err != nil {
		panic("openapi: encode index: " + err.Error()) // strings only
	}
	return data
}

// URL is where a document is served, for as long as it has this hash.
func URL(path, hash string) string { return "/openapi/v3/" + path + "?hash=" + hash }
