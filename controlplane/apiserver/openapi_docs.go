package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/writ-os/writ/controlplane/apiserver/openapi"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/custom"
)

// openapiDocs are the OpenAPI documents of one served. Those of the built-in
// kinds are embedded; those that definitions add are made when a client first
// asks for them.
type openapiDocs struct {
	aggregated []AggregatedVersion
	custom     []*schema.Resource

	mu      sync.Mutex
	listing []byte
	merged  [2]*openapi.Document // v2, as JSON and as protobuf
}

// customPaths are the paths of the documents of custom resources, each with
// what describes it.
func (d *openapiDocs) customPaths() map[string][]*custom.Version {
	all := map[string][]*custom.Version{}
	for _, r := range d.custom {
		if v, ok := r.Custom.(*custom.Version); ok {
			path := "apis/" + r.Group + "/" + r.Version
			all[path] = append(all[path], v)
		}
	}
	return all
}

// customDoc is the v3 document of versions that share a group and version.
func customDoc(path string, versions []*custom.Version) (*openapi.Document, error) {
	var docs []*custom.Document
	for _, v := range versions {
		doc, err := custom.OpenAPIV3(v)
		if err != nil {
			return nil, fmt.Errorf("describe %s: %w", path, err)
		}
		docs = append(docs, doc)
	}
	data, err := custom.Join(docs...)
	if err != nil {
		return nil, fmt.Errorf("describe %s: %w", path, err)
	}
	return &openapi.Document{Path: path, Plain: data, Hash: openapi.Hash(data)}, nil
}

// index is the document of /openapi/v3.
func (d *openapiDocs) index() ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.listing != nil {
		return d.listing, nil
	}
	more := map[string]string{}
	for path, versions := range d.customPaths() {
		doc, err := customDoc(path, versions)
		if err != nil {
			return nil, err
		}
		more[path] = doc.Hash
	}
	for _, v := range d.aggregated {
		if v.OpenAPIHash != "" {
			more["apis/"+v.Group+"/"+v.Discovery.Version] = v.OpenAPIHash
		}
	}
	d.listing = openapi.Index(more)
	return d.listing, nil
}

// find returns the v3 document of "apis/<group>/<version>"; nil when there is
// none.
func (d *openapiDocs) find(path string) (*openapi.Document, error) {
	if doc := openapi.Lookup(path); doc != nil {
		return doc, nil
	}
	if versions := d.customPaths()[path]; versions != nil {
		return customDoc(path, versions)
	}
	return nil, nil
}

// v2 returns the one document of all kinds.
func (d *openapiDocs) v2(protobuf bool) (*openapi.Document, error) {
	doc, pb, err := openapi.V2()
	if err != nil {
		return nil, err
	}
	docs := [2]*openapi.Document{doc, pb}
	if len(d.custom) > 0 {
		if docs, err = d.mergeV2(docs); err != nil {
			return nil, err
		}
	}
	if protobuf {
		return docs[1], nil
	}
	return docs[0], nil
}

// mergeV2 adds the custom resources to the embedded documents.
func (d *openapiDocs) mergeV2(docs [2]*openapi.Document) ([2]*openapi.Document, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.merged[0] != nil {
		return d.merged, nil
	}
	parts, err := d.partsV2()
	if err != nil {
		return docs, err
	}
	plain, err := docs[0].JSON()
	if err != nil {
		return docs, err
	}
	pb, err := docs[1].JSON()
	if err != nil {
		return docs, err
	}
	if plain, pb, err = openapi.MergeV2(plain, pb, parts); err != nil {
		return docs, err
	}
	var merged [2]*openapi.Document
	for i, data := range [][]byte{plain, pb} {
		if merged[i], err = openapi.Compress(docs[i].Path, data); err != nil {
			return docs, err
		}
	}
	d.merged = merged
	return merged, nil
}

// builtinModels begin the names of what the embedded document describes.
const builtinModels = "io.k8s.apimachinery."

func (d *openapiDocs) partsV2() (openapi.PartsV2, error) {
	parts := openapi.PartsV2{Paths: map[string]json.RawMessage{}, Definitions: map[string]json.RawMessage{}, Parameters: map[string]json.RawMessage{}}
	for path, versions := range d.customPaths() {
		for _, v := range versions {
			doc, err := custom.OpenAPIV2(v)
			if err != nil {
				return parts, fmt.Errorf("describe %s: %w", path, err)
			}
			add(parts.Paths, doc.Paths)
			add(parts.Definitions, doc.Schemas)
			add(parts.Parameters, doc.Parameters)
		}
	}
	return parts, nil
}

func add(to, from map[string]json.RawMessage) {
	for k, v := range from {
		if !strings.HasPrefix(k, builtinModels) {
			to[k] = v
		}
	}
}

// settled is how long the catalog has to stay as it is before its documents are
// made: definitions tend to come many at once.
const settled = time.Second

// describe makes the OpenAPI v2 document whenever definitions have changed, so
// that no client has to wait for it, until ctx ends.
func (s *Server) describe(ctx context.Context) error {
	pause := time.NewTimer(settled)
	defer pause.Stop()
	for {
		changed := s.cfg.Catalog.Changed()
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			pause.Reset(settled)
		case <-pause.C:
			if docs := &s.served().openapi; len(docs.custom) > 0 {
				if _, err := docs.v2(false); err != nil {
					s.cfg.Log.Warn("custom resources cannot be described", "err", err)
				}
			}
		}
	}
}
