package apiserver_test

import (
	"strings"
	"testing"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
)

func TestOpenAPI(t *testing.T) {
	c := newCluster(t)
	const pb = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
	for _, defined := range []bool{false, true} {
		if defined {
			c.define(t, widgets())
		}
		r := c.do(t, "admin", "GET", "/openapi/v2", "", "Accept: "+pb)
		if r.code != 200 || r.header.Get("Content-Type") != "application/com.github.proto-openapi.spec.v2.v1.0+protobuf" || r.header.Get("Etag") == "" {
			t.Fatalf("v2 in protobuf: %d %v", r.code, r.header)
		}
		var doc openapi_v2.Document
		if err := proto.Unmarshal([]byte(r.body), &doc); err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, d := range doc.GetDefinitions().GetAdditionalProperties() {
			if names[d.Name] {
				t.Errorf("%s is defined twice", d.Name)
			}
			names[d.Name] = true
		}
		if !names["io.k8s.api.apps.v1.Deployment"] || names["com.example.v1.Widget"] != defined {
			t.Errorf("definitions: %d, widgets %v, want %v", len(names), names["com.example.v1.Widget"], defined)
		}
		if r := c.do(t, "admin", "GET", "/openapi/v2", "", "If-None-Match: "+c.do(t, "admin", "GET", "/openapi/v2", "").header.Get("Etag")); r.code != 304 {
			t.Errorf("known document: %d", r.code)
		}
	}
	if r := c.do(t, "admin", "GET", "/openapi/v2", "", "Accept: text/html"); r.code != 406 {
		t.Errorf("v2 as HTML: %d", r.code)
	}
	index := c.do(t, "admin", "GET", "/openapi/v3", "").body
	_, url, _ := strings.Cut(index, `"apis/apps/v1":{"serverRelativeURL":"`)
	url, _, _ = strings.Cut(url, `"`)
	if r := c.do(t, "admin", "GET", url, ""); r.code != 200 || r.header.Get("Cache-Control") != "public, immutable" || r.header.Get("Expires") == "" {
		t.Errorf("%s: %d %v", url, r.code, r.header)
	}
	if r := c.do(t, "admin", "GET", "/openapi/v3/apis/apps/v1", "", "Accept-Encoding: gzip"); r.code != 200 || r.header.Get("Content-Encoding") != "gzip" {
		t.Errorf("compressed: %d %v", r.code, r.header)
	}
	if r := c.do(t, "admin", "GET", "/openapi/v3/apis/nothing/v1", ""); r.code != 404 {
		t.Errorf("no such document: %d", r.code)
	}
}
