package store

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/writ-os/writ/schema"
)

// The keys of all objects: /registry/<prefix>/[<namespace>/]<name>.
const (
	root    = "/registry/"
	rootEnd = "/registry0" // the first key after all that begin with root
)

// slot is what the store keeps of one resource.
type slot struct {
	res   *schema.Resource
	table *table // touched by the applier only
	log   *eventLog
}

// keyspace says which resources are kept, and maps their objects to etcd keys
// and back. It never changes; another one takes its place.
type keyspace struct {
	byPrefix map[string]int // position of the resource
	byRes    map[*schema.Resource]int
	slots    []*slot // nil where a resource was removed
}

func newKeyspace(res []*schema.Resource, logMax int) *keyspace {
	k := &keyspace{byPrefix: map[string]int{}, byRes: map[*schema.Resource]int{}}
	for _, r := range res {
		r = r.Stored()
		if _, twice := k.byRes[r]; !twice {
			k.set(len(k.slots), newSlot(r, logMax))
		}
	}
	return k
}

func newSlot(r *schema.Resource, logMax int) *slot {
	return &slot{res: r, table: newTable(r), log: newEventLog(r, logMax)}
}

func (k *keyspace) set(i int, sl *slot) {
	if i == len(k.slots) {
		k.slots = append(k.slots, nil)
	}
	k.slots[i] = sl
	k.byPrefix[sl.res.StoragePrefix], k.byRes[sl.res] = i, i
}

func (k *keyspace) clone() *keyspace {
	return &keyspace{byPrefix: maps.Clone(k.byPrefix), byRes: maps.Clone(k.byRes), slots: slices.Clone(k.slots)}
}

// with returns the keyspace with one more resource, in the first free position.
func (k *keyspace) with(sl *slot) *keyspace {
	next := k.clone()
	i := slices.Index(next.slots, nil)
	if i < 0 {
		i = len(next.slots)
	}
	next.set(i, sl)
	return next
}

// without returns the keyspace without the resource at a position.
func (k *keyspace) without(i int) *keyspace {
	next := k.clone()
	delete(next.byPrefix, next.slots[i].res.StoragePrefix)
	delete(next.byRes, next.slots[i].res)
	next.slots[i] = nil
	return next
}

// find returns what is kept of a resource, or of the one that it is kept as;
// nil when the store does not keep it.
func (k *keyspace) find(r *schema.Resource) *slot {
	if i, ok := k.byRes[r.Stored()]; ok {
		return k.slots[i]
	}
	return nil
}

// encode returns the etcd key of an object.
func (k *keyspace) encode(r *schema.Resource, key schema.Key) (string, error) {
	r = r.Stored()
	if _, ok := k.byRes[r]; !ok {
		return "", fmt.Errorf("%w: %v", ErrNotKept, r)
	}
	if key.Name == "" || (key.Namespace != "") != r.Namespaced || strings.Contains(key.Name, "/") {
		return "", fmt.Errorf("%q is not a key of %v", key, r)
	}
	return root + r.StoragePrefix + "/" + key.String(), nil
}

// decode splits an etcd key; ok is false for keys that are not of an object of
// a resource that is kept. Prefixes have one segment ("pods") or two
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
	valid := name.Name != "" && (name.Namespace != "") == k.slots[i].res.Namespaced && !strings.Contains(name.Name, "/")
	return i, name, valid
}

// strayPrefix is what a resource that the store does not keep yet would have
// as its prefix, if the key is one of its objects: "<group>/<plural>".
func strayPrefix(key []byte) (string, bool) {
	rest, found := strings.CutPrefix(string(key), root)
	if !found {
		return "", false
	}
	group, rest, found := strings.Cut(rest, "/")
	if !found {
		return "", false
	}
	plural, _, found := strings.Cut(rest, "/")
	return group + "/" + plural, found
}
