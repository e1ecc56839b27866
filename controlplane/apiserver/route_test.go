package apiserver

import (
	"net/http"
	"net/url"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// upstream is the code whose reading of paths ours must equal.
var upstream = &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// FuzzRoute holds our reading of a request against upstream's: authorization
// depends on it.
func FuzzRoute(f *testing.F) {
	for _, s := range []struct{ method, path, query string }{
		{"GET", "/api/v1/namespaces/default/pods", "watch=true"},
		{"GET", "/api/v1/namespaces/default/pods/p/log", ""},
		{"GET", "/api/v1/pods", "fieldSelector=metadata.name%3Dx"},
		{"POST", "/api/v1/namespaces/default/finalize", ""},
		{"PUT", "/api/v1/namespaces/default/status", ""},
		{"DELETE", "/apis/apps/v1/namespaces/x/deployments", ""},
		{"PATCH", "/apis/apps/v1/namespaces/x/deployments/d/scale", ""},
		{"GET", "/api/v1/watch/namespaces/x/pods", ""},
		{"GET", "/api/v1/proxy/nodes/n/logs", ""},
		{"GET", "/api/v1/nodes/n/proxy/a/b/c", ""},
		{"HEAD", "/apis/apps", ""},
		{"GET", "//api//v1///pods//", "watch=0&fieldSelector=a=b,metadata.name==y"},
		{"OPTIONS", "/healthz", ""},
		{"GET", "/api/v1/watch", ""},
	} {
		f.Add(s.method, s.path, s.query)
	}
	f.Fuzz(func(t *testing.T, method, path, query string) {
		// Both parse the same URL; queries that do not parse are refused before.
		if _, err := url.ParseQuery(query); err != nil {
			t.Skip()
		}
		r := &http.Request{Method: method, URL: &url.URL{Path: path, RawQuery: query}}
		want, werr := upstream.NewRequestInfo(r)
		got, gerr := parseRoute(r)
		if (werr != nil) != (gerr != nil) {
			t.Fatalf("errors differ: %v, upstream %v", gerr, werr)
		}
		if werr != nil {
			return
		}
		if got.IsResource != want.IsResourceRequest || got.Verb != want.Verb || got.Path != want.Path || got.Group != want.APIGroup ||
			got.Version != want.APIVersion || got.Namespace != want.Namespace || got.Plural != want.Resource ||
			got.Subresource != want.Subresource || got.Name != want.Name {
			t.Fatalf("%s %s ? %s\n got %+v\nwant %+v", method, path, query, got, *want)
		}
	})
}

func BenchmarkRoute(b *testing.B) {
	r := &http.Request{Method: "GET", URL: &url.URL{Path: "/api/v1/namespaces/default/pods/p", RawQuery: ""}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parseRoute(r); err != nil {
			b.Fatal(err)
		}
	}
}
