package store

import (
	"encoding/json"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/writ-os/writ/schema"
)

// Sealer keeps values at rest in another form than the encoding of an object:
// encrypted. Its methods are safe for concurrent use.
type Sealer interface {
	// Seal makes what etcd keeps under a key of the encoding of an object.
	Seal(r *schema.Resource, key string, plain []byte) ([]byte, error)
	// Open takes back what Seal has made, now or with an older key. Values that
	// were never sealed come back as they are.
	Open(r *schema.Resource, key string, sealed []byte) ([]byte, error)
}

// plain is the Sealer of a store that has none.
type plain struct{}

func (plain) Seal(_ *schema.Resource, _ string, value []byte) ([]byte, error) { return value, nil }
func (plain) Open(_ *schema.Resource, _ string, value []byte) ([]byte, error) { return value, nil }

// encodeValue writes an object as a Kubernetes API server stores it, without
// its resourceVersion. The object stays as it is.
func encodeValue(o schema.Object) ([]byte, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return schema.EncodeStorage(o)
	}
	content := maps.Clone(u.Object)
	if meta, ok := content["metadata"].(map[string]any); ok {
		meta = maps.Clone(meta)
		delete(meta, "resourceVersion")
		delete(meta, "selfLink")
		content["metadata"] = meta
	}
	value, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", u.GetKind(), err)
	}
	return append(value, '\n'), nil
}

// decodeValue reads what encodeValue or a Kubernetes API server wrote. Objects
// of custom resources keep the apiVersion in which they are stored.
func decodeValue(r *schema.Resource, value []byte) (schema.Object, error) {
	if !dynamic(r) {
		return schema.DecodeStorage(r, value)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(value); err != nil {
		return nil, fmt.Errorf("read stored %s: %w", r, err)
	}
	if gvk := u.GroupVersionKind(); gvk.Group != r.Group || gvk.Version == "" || gvk.Kind != r.Kind {
		return nil, fmt.Errorf("read stored %s: the value is a %v", r, gvk)
	}
	return u, nil
}

// dynamic says whether the objects of a resource have no Go type.
func dynamic(r *schema.Resource) bool {
	if r.Custom != nil || r.New == nil {
		return true
	}
	_, ok := r.New().(*unstructured.Unstructured)
	return ok
}
