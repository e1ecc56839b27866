package encryption

import "context"

// Transformer is what the store needs: it turns what is to be kept into what
// is on disk, and back. resource is "secrets" or "deployments.apps", key the
// etcd key ("/registry/secrets/default/token").
type Transformer interface {
	// ToStorage encrypts, where the resource is to be encrypted.
	ToStorage(ctx context.Context, resource, key string, plain []byte) (stored []byte, err error)
	// FromStorage decrypts. stale says that a write would store it otherwise:
	// with another key or provider, or no longer plain.
	FromStorage(ctx context.Context, resource, key string, stored []byte) (plain []byte, stale bool, err error)
}
