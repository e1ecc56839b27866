package aggregate

import (
	"strings"
	"testing"
)

// FuzzDiscovery: whatever another server says that it serves, ours reads it or
// says why not; and no subresource becomes a resource.
func FuzzDiscovery(f *testing.F) {
	f.Add([]byte(`{"kind":"APIResourceList","groupVersion":"a.example.com/v1","resources":[{"name":"x","namespaced":true,"kind":"X","verbs":["get"]},{"name":"x/status","kind":"X"}]}`))
	f.Add([]byte(`{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"y/z/z"},{"name":"/"},{"name":""},{"name":"y/a"}]}`))
	f.Add([]byte(`{"kind":"APIResourceList","groupVersion":"a/b/c"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := read(data, "v1")
		if err != nil {
			return
		}
		for _, r := range got.Resources {
			if strings.Contains(r.Resource, "/") {
				t.Errorf("%q is a resource", r.Resource)
			}
			for _, s := range r.Subresources {
				if s.ResponseKind == nil {
					t.Errorf("%s/%s has no kind", r.Resource, s.Subresource)
				}
			}
			if r.ResponseKind == nil {
				t.Errorf("%s has no kind", r.Resource)
			}
		}
	})
}
