package store

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestOwnersAreShared: equal sets of fields are the same bytes, others stay.
func TestOwnersAreShared(t *testing.T) {
	var s ownerSets
	object := func(raw string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{
			{Manager: "a", FieldsV1: &metav1.FieldsV1{Raw: []byte(raw)}}, {Manager: "b"},
		}}}
	}
	a, b, c := object(`{"f:data":{}}`), object(`{"f:data":{}}`), object(`{"f:spec":{}}`)
	for _, o := range []*corev1.ConfigMap{a, b, c} {
		s.share(o)
	}
	raw := func(o *corev1.ConfigMap) []byte { return o.ManagedFields[0].FieldsV1.GetRawBytes() }
	if &raw(a)[0] != &raw(b)[0] {
		t.Error("equal sets are not the same bytes")
	}
	if string(raw(b)) != `{"f:data":{}}` || string(raw(c)) != `{"f:spec":{}}` {
		t.Errorf("sets became %s and %s", raw(b), raw(c))
	}
}
