package schema

import (
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Object is any API object: the Go types of k8s.io/api, and those of our own
// group in schema/v1alpha1. Objects that come out of a store, a cache or a
// client are shared and must not be changed: DeepCopyObject first. They always
// carry apiVersion and kind.
type Object interface {
	runtime.Object
	metav1.Object
}

// Key names an object among those of its resource. Namespace is empty for
// cluster-scoped resources.
type Key struct{ Namespace, Name string }

// KeyOf returns the key of an object.
func KeyOf(o metav1.Object) Key { return Key{o.GetNamespace(), o.GetName()} }

// ParseKey reads "namespace/name" or "name", as Key.String prints it.
func ParseKey(s string) Key {
	if ns, name, ok := strings.Cut(s, "/"); ok {
		return Key{ns, name}
	}
	return Key{Name: s}
}

// String returns "namespace/name", or "name" for a cluster-scoped object.
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// subBits is how many low bits of a resource version count the writes inside
// one etcd transaction.
const subBits = 20

// ResourceVersion is the store's clock. The objects of one etcd transaction
// share a main revision, and a watch resumed between two of them must lose
// none: a resource version is therefore main revision << 20 | sub revision.
// Clients see an opaque, growing integer.
type ResourceVersion uint64

// NewResourceVersion joins an etcd main revision and the index of a write
// inside its transaction.
func NewResourceVersion(main, sub int64) ResourceVersion {
	return ResourceVersion(uint64(main)<<subBits | uint64(sub))
}

// Main returns the etcd main revision.
func (v ResourceVersion) Main() int64 { return int64(v >> subBits) }

// Sub returns the index of the write inside its transaction.
func (v ResourceVersion) Sub() int64 { return int64(v & (1<<subBits - 1)) }

// String returns the decimal form that clients see.
func (v ResourceVersion) String() string { return strconv.FormatUint(uint64(v), 10) }

// ParseResourceVersion reads the decimal form. "" and "0" are 0, "any".
func ParseResourceVersion(s string) (ResourceVersion, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("parse resource version %q: not a decimal number", s)
	}
	return ResourceVersion(n), nil
}
