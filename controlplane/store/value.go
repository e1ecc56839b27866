package store

import (
	"bytes"
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
	// stale says that Seal would make something else of it now: with another key, or
	// of a value that was never sealed.
	Open(r *schema.Resource, key string, sealed []byte) (plain []byte, stale bool, err error)
}

// plain is the Sealer of a store that has none.
type plain struct{}

func (plain) Seal(_ *schema.Resource, _ string, value []byte) ([]byte, error) { return value, nil }

// Open says what is missing instead of that a value is no object.
func (plain) Open(_ *schema.Resource, _ string, value []byte) ([]byte, bool, error) {
	if bytes.HasPrefix(value, []byte(encrypted)) {
		by := keyOf(value)
		return nil, false, fmt.Errorf("it is encrypted (%.120q), and this server has no encryption configuration", by)
	}
	return value, false, nil
}

// encrypted begins what Kubernetes encrypts.
const encrypted = "k8s:enc:"

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

// keyOf is the beginning of an encrypted value, which names the provider and the
// key: k8s:enc:<provider>:<version>:<key>:
func keyOf(value []byte) string {
	parts := bytes.SplitN(value[:min(len(value), 256)], []byte(":"), 6)
	return string(bytes.Join(parts[:min(len(parts), 5)], []byte(":")))
}
