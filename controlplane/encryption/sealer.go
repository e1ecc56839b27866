package encryption

import (
	"context"
	"time"

	"github.com/writ-os/writ/schema"
)

// sealTimeout bounds one value: KMS plugins have timeouts of their own, which
// the configuration gives.
const sealTimeout = time.Minute

// Sealer is an Encryption as the store wants it (store.Sealer). A custom
// resource is configured by its own name: "widgets.example.com".
type Sealer struct{ Transformer }

// Seal encrypts the encoding of an object for an etcd key.
func (s Sealer) Seal(r *schema.Resource, key string, plain []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), sealTimeout)
	defer cancel()
	return s.ToStorage(ctx, nameOf(r), key, plain)
}

// Open decrypts what lies under an etcd key. stale says that Seal would store it
// otherwise: with another key or provider, or no longer plain.
func (s Sealer) Open(r *schema.Resource, key string, sealed []byte) (plain []byte, stale bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), sealTimeout)
	defer cancel()
	return s.FromStorage(ctx, nameOf(r), key, sealed)
}

// nameOf is how the configuration names a resource: by the group in which
// upstream registers what is stored.
func nameOf(r *schema.Resource) string {
	if r.Group == "" {
		return r.Plural
	}
	return r.Plural + "." + r.Group
}
