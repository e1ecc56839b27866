package render

import (
	"fmt"
	"testing"
)

// TestKustomizeOwnDocument: of several objects of one kind in a file each is at
// its own document, whatever the order and whatever kustomize puts around the
// names.
func TestKustomizeOwnDocument(t *testing.T) {
	const docs = `apiVersion: v1
kind: ServiceAccount
metadata: {name: server-applicationset-controller}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: server, namespace: one}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: server, namespace: two}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: repo}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: a}
`
	for _, c := range []struct{ name, more, format string }{
		{"as they are", "", "ServiceAccount/%s/%s"},
		{"prefix", "namePrefix: prod-\n", "ServiceAccount/%s/prod-%s"},
		{"suffix", "nameSuffix: -repo\n", "ServiceAccount/%s/%s-repo"},
		{"patched", "commonAnnotations: {a: b}\n", "ServiceAccount/%s/%s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := manifests(t, memTree{"k/kustomization.yaml": "resources: [install.yaml]\n" + c.more, "k/install.yaml": docs})
			for _, want := range []struct {
				namespace, name string
				line            int
			}{{"default", "server-applicationset-controller", 1}, {"one", "server", 5}, {"two", "server", 9}, {"default", "repo", 13}, {"default", "a", 17}} {
				object := fmt.Sprintf(c.format, want.namespace, want.name)
				if m := all[object]; m == nil || m.File != "k/install.yaml" || m.Line != want.line {
					t.Errorf("%s: is not at line %d: %v", object, want.line, m)
				}
			}
		})
	}
}
