package apiserver_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FuzzManagedFields: whatever a client says about who owns which field, in an
// update, a patch or an apply, the answer is an object or that it is the
// client's mistake; and what is stored can be applied over afterwards.
func FuzzManagedFields(f *testing.F) {
	for _, s := range []string{
		`[{"manager":"m","operation":"Apply","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:a":{}}}}]`,
		`[{}]`, `[]`, `null`,
		`[{"manager":"m","operation":"Update","apiVersion":"v9","fieldsType":"FieldsV1","fieldsV1":{"k:{\"a\":1}":{},"v:1":{},"i:3":{}}}]`,
		`[{"manager":"m","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV2","fieldsV1":{"f:":7}}]`,
		`[{"manager":"m","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":null,"subresource":"status"}]`,
	} {
		f.Add(s)
	}
	c := newCluster(f)
	h := c.srv.Handler()
	ask := func(t *testing.T, method, query, media, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "/api/v1/namespaces/default/configmaps/owned"+query, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer admin")
		r.Header.Set("Content-Type", media)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code >= 500 && !upstreamsOwn(w.Body.String()) {
			t.Fatalf("%s %s %s: %d %s", method, query, body, w.Code, w.Body)
		}
		return w
	}
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owned"}, Data: map[string]string{"a": "b"}}
	if _, err := c.clientset(f, "admin").CoreV1().ConfigMaps("default").Create(f.Context(), m, metav1.CreateOptions{}); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, fields string) {
		object := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"owned","managedFields":` + fields + `},"data":{"a":"c"}}`
		ask(t, "PATCH", "?fieldManager=f&force=true", "application/apply-patch+yaml", object)
		ask(t, "PATCH", "?fieldManager=f", "application/merge-patch+json", object)
		ask(t, "PUT", "?fieldManager=f&fieldValidation=Strict", "application/json", object)
		plain := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"owned"},"data":{"a":"d"}}`
		if w := ask(t, "PATCH", "?fieldManager=g&force=true", "application/apply-patch+yaml", plain); w.Code != http.StatusOK {
			t.Errorf("apply after managedFields %s: %d %s", fields, w.Code, w.Body)
		}
	})
}
