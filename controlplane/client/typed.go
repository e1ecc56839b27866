package client

import (
	"context"

	"github.com/writ-os/writ/schema"
)

// Get returns one object as its Go type: Get[*corev1.Pod](ctx, c, key).
func Get[T schema.Object](ctx context.Context, c Reader, key schema.Key) (T, error) {
	o, err := c.Get(ctx, schema.ResourceFor[T](), key)
	if err != nil {
		var none T
		return none, err
	}
	return o.(T), nil
}

// ListAll returns objects as their Go type.
func ListAll[T schema.Object](ctx context.Context, c Reader, o ListOptions) ([]T, error) {
	l, err := c.List(ctx, schema.ResourceFor[T](), o)
	if err != nil {
		return nil, err
	}
	return typed[T](l.Items), nil
}

// Create stores a new object.
func Create[T schema.Object](ctx context.Context, c Writer, o T, w WriteOptions) (T, error) {
	return as[T](c.Create(ctx, schema.ResourceFor[T](), o, w))
}

// Update replaces an object.
func Update[T schema.Object](ctx context.Context, c Writer, o T, w WriteOptions) (T, error) {
	return as[T](c.Update(ctx, schema.ResourceFor[T](), o, w))
}

// UpdateStatus replaces the status of an object.
func UpdateStatus[T schema.Object](ctx context.Context, c Writer, o T) (T, error) {
	return Update(ctx, c, o, WriteOptions{Subresource: "status"})
}

// Delete removes an object of type T.
func Delete[T schema.Object](ctx context.Context, c Writer, key schema.Key, d DeleteOptions) error {
	return c.Delete(ctx, schema.ResourceFor[T](), key, d)
}

// Cached returns an object of a cache as its Go type.
func Cached[T schema.Object](c Cache, key schema.Key) (T, bool) {
	o, ok := c.Get(schema.ResourceFor[T](), key)
	if !ok {
		var none T
		return none, false
	}
	return o.(T), true
}

// CachedList returns the objects of a namespace ("" for all) as their Go type.
func CachedList[T schema.Object](c Cache, namespace string) []T {
	return typed[T](c.List(schema.ResourceFor[T](), namespace))
}

// CachedIndex returns the objects under a value of an index as their Go type.
func CachedIndex[T schema.Object](c Cache, index, value string) []T {
	return typed[T](c.Index(schema.ResourceFor[T](), index, value))
}

func typed[T schema.Object](in []schema.Object) []T {
	out := make([]T, len(in))
	for i, o := range in {
		out[i] = o.(T)
	}
	return out
}

func as[T schema.Object](o schema.Object, err error) (T, error) {
	if err != nil {
		var none T
		return none, err
	}
	return o.(T), nil
}
