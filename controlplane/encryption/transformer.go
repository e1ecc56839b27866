package encryption

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

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

// Stored is a value as it is on disk.
type Stored struct {
	Resource, Key string
	Value         []byte
}

// Stale returns the keys of the values that a write would store otherwise. The
// error joins what could not be read; the others are looked at all the same.
func Stale(ctx context.Context, t Transformer, all iter.Seq[Stored]) ([]string, error) {
	var (
		keys []string
		errs []error
	)
	for s := range all {
		if err := ctx.Err(); err != nil {
			return keys, errors.Join(append(errs, err)...)
		}
		_, stale, err := t.FromStorage(ctx, s.Resource, s.Key, s.Value)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("decrypt %s: %w", s.Key, err))
		case stale:
			keys = append(keys, s.Key)
		}
	}
	return keys, errors.Join(errs...)
}
