package store

import (
	"fmt"
	"strings"

	"github.com/writ-os/writ/schema"
)

// The keys of all objects: /registry/<prefix>/[<namespace>/]<name>.
const (
	root    = "/registry/"
	rootEnd = "/registry0" // the first key after all that begin with root
)

// keyspace maps objects to etcd keys and back.
type keyspace struct {
	byPrefix map[string]int // position of the resource
	byRes    map[*schema.Resource]int
	res      []*schema.Resource
}

func newKeyspace(res []*schema.Resource) *keyspace {
	k := &keyspace{byPrefix: map[string]int{}, byRes: map[*schema.Resource]int{}, res: res}
	for i, r := range res {
		k.byPrefix[r.StoragePrefix] = i
		k.byRes[r] = i
	}
	return k
}

// index returns the position of a resource. Asking for one that the store does
// not serve is a mistake of the caller.
func (k *keyspace) index(r *schema.Resource) int {
	i, ok := k.byRes[r]
	if !ok {
		panic(fmt.Sprintf("store: resource %v is not served", r))
	}
	return i
}

// encode returns the etcd key of an object.
func (k *keyspace) encode(r *schema.Resource, key schema.Key) (string, error) {
	if _, ok := k.byRes[r]; !ok {
		return "", fmt.Errorf("resource %v is not served", r)
	}
	if key.Name == "" || (key.Namespace != "") != r.Namespaced || strings.Contains(key.Name, "/") {
		return "", fmt.Errorf("%q is not a key of %v", key, r)
	}
	return root + r.StoragePrefix + "/" + key.String(), nil
}

// decode splits an etcd key; ok is false for keys that are not of an object of
// a served resource. Prefixes have one segment ("pods") or two
// ("services/specs").
func (k *keyspace) decode(key []byte) (i int, name schema.Key, ok bool) {
	rest, found := strings.CutPrefix(string(key), root)
	if !found {
		return 0, name, false
	}
	one := strings.IndexByte(rest, '/')
	if one < 0 {
		return 0, name, false
	}
	i, ok = k.byPrefix[rest[:one]]
	cut := one
	if two := strings.IndexByte(rest[one+1:], '/'); two >= 0 {
		if j, found := k.byPrefix[rest[:one+1+two]]; found {
			i, ok, cut = j, true, one+1+two
		}
	}
	if !ok {
		return 0, name, false
	}
	name = schema.ParseKey(rest[cut+1:])
	valid := name.Name != "" && (name.Namespace != "") == k.res[i].Namespaced && !strings.Contains(name.Name, "/")
	return i, name, valid
}
