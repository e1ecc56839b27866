package store

import (
	"bytes"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/writ-os/writ/schema"
)

// FuzzValue: any bytes of etcd are an object or an error; what is read and
// written again stays as it is.
func FuzzValue(f *testing.F) {
	for _, o := range []schema.Object{configMap("default", "c", "v"), pod("default", "p", "n", "u"), namespace("x")} {
		value, err := encodeValue(o)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(0), value)
	}
	f.Add(uint8(3), []byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","selfLink":"/","managedFields":[{}]},"items":[{}]}`))
	f.Add(uint8(3), []byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":[]}`))
	custom := &schema.Resource{Group: "example.com", Version: "v1", Kind: "Widget", New: func() schema.Object { return &unstructured.Unstructured{} }}
	kinds := []*schema.Resource{configMaps, pods, schema.ResourceFor[*corev1.Secret](), custom}
	f.Fuzz(func(t *testing.T, kind uint8, value []byte) {
		r := kinds[int(kind)%len(kinds)]
		o, err := decodeValue(r, value)
		if err != nil {
			return
		}
		once, err := encodeValue(o)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if o, err = decodeValue(r, once); err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		if twice, err := encodeValue(o); err != nil || !bytes.Equal(once, twice) {
			t.Errorf("written once\n%q\nand twice\n%q, %v", once, twice, err)
		}
	})
}
