package apiserver_test

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FuzzPatch: whatever a patch says, it is applied or it is the client's
// mistake.
func FuzzPatch(f *testing.F) {
	types := []string{
		"application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml",
	}
	for kind, body := range []string{
		`[{"op":"add","path":"/metadata/labels/a","value":"b"},{"op":"test","path":"/kind","value":"Pod"}]`,
		`{"metadata":{"labels":{"a":null}},"spec":{"containers":[]}}`,
		`{"spec":{"containers":[{"name":"c","image":"y"},{"$patch":"delete","name":"c"}],"$setElementOrder/containers":[{"name":"c"}]}}`,
		"apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {x: y}}\n",
	} {
		f.Add(uint8(kind), body)
	}
	c := newCluster(f)
	if _, err := c.clientset(f, "admin").CoreV1().Pods("default").Create(f.Context(), pod("p"), metav1.CreateOptions{}); err != nil {
		f.Fatal(err)
	}
	h := c.srv.Handler()
	f.Fuzz(func(t *testing.T, kind uint8, body string) {
		for _, query := range []string{"?fieldManager=f", "?fieldManager=f&fieldValidation=Strict&force=true"} {
			if types[kind%4] != types[3] {
				query = strings.TrimSuffix(query, "&force=true")
			}
			r := httptest.NewRequest("PATCH", "/api/v1/namespaces/default/pods/p"+query+"&dryRun=All", strings.NewReader(body))
			r.Header.Set("Authorization", "Bearer admin")
			r.Header.Set("Content-Type", types[kind%4])
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code >= 500 && !upstreamsOwn(w.Body.String()) {
				t.Fatalf("%s %q: %d %s", types[kind%4], body, w.Code, w.Body)
			}
		}
	})
}

// upstreamsOwn says whether an answer is one of those in which upstream, too,
// does not know the client's mistake for one: what its libraries of apply and
// strategic merge find (ci/differential has examples recorded).
func upstreamsOwn(body string) bool {
	return slices.ContainsFunc([]string{
		"failed to create typed patch object", "does not contain declared merge key", "unable to find api field in struct",
		"doesn't match $setElementOrder list", "unknown patch type", "merging lists cannot yet be specified", "unexpected patch strategy",
		"list element types are not identical", "invalid element type in merging list", "cannot find merge key", "invalid value for special key",
		"expected a ", "is not a map", "merging an object in json but data type is not struct",
	}, func(text string) bool { return strings.Contains(body, text) })
}
