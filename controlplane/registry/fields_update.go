package registry

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"reflect"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"

	"github.com/writ-os/writ/schema"
)

// Updates are remembered as the shapes of new objects are: who owns what after
// an update follows from who owned what before and from which fields it has
// set, changed and taken away. The pods of a ReplicaSet, and the heartbeats of a
// node, go through the same few updates again and again, and then share the
// bytes of their owners.

// cappedOwners is from how many owners by updates on the field manager joins the
// oldest of them, which follows from their times.
const cappedOwners = 10

type updateKey struct {
	door fieldDoor
	sum  [sha256.Size]byte
}

// outcome are the owners after an update.
type outcome []ownerEntry

type ownerEntry struct {
	metav1.ManagedFieldsEntry
	touched bool // the time is that of the update
}

// updates knows the outcomes of updates.
type updates struct {
	mu       sync.RWMutex
	outcomes map[updateKey]outcome
	roots    map[*schema.Resource]mergeRoot
	sets     map[[sha256.Size]byte][]byte // FieldsV1 by their sum, so that equal ones are one
}

// mergeRoot are the merge types of a kind.
type mergeRoot struct {
	types *smd.Schema
	ref   smd.TypeRef
}

func (u *updates) find(k updateKey) (outcome, bool) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	o, ok := u.outcomes[k]
	return o, ok
}

func (u *updates) keep(k updateKey, o outcome) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.outcomes == nil || len(u.outcomes) >= shapesMost {
		u.outcomes, u.sets = map[updateKey]outcome{}, map[[sha256.Size]byte][]byte{}
	}
	for i := range o {
		if f := o[i].FieldsV1; f != nil {
			sum := sha256.Sum256(f.GetRawBytes())
			if u.sets[sum] == nil {
				u.sets[sum] = f.GetRawBytes()
			}
			f.Raw = u.sets[sum] //nolint:staticcheck // shared: SetRawBytes copies
		}
	}
	u.outcomes[k] = o
}

// root returns the merge types of a kind.
func (f *fieldManagers) root(r *schema.Resource) (mergeRoot, bool) {
	u := &f.updates
	u.mu.RLock()
	root, ok := u.roots[r]
	u.mu.RUnlock()
	if ok {
		return root, root.types != nil
	}
	if v, err := mergeTypes(r).ObjectToTyped(empty(r)); err == nil {
		root = mergeRoot{v.Schema(), v.TypeRef()}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.roots == nil {
		u.roots = map[*schema.Resource]mergeRoot{}
	}
	u.roots[r] = root
	return root, root.types != nil
}

// updateKey says by what an update is remembered; false where it cannot be.
func (f *fieldManagers) updateKey(r *schema.Resource, sub string, old, o schema.Object, manager string) (k updateKey, ok bool) {
	owners := old.GetManagedFields()
	if r.Custom != nil || r.Storage != nil || r == scaleRow || !remembered(r, owners) {
		return k, false
	}
	if sub == "" && o.GetManagedFields() != nil && !reflect.DeepEqual(o.GetManagedFields(), owners) {
		return k, false // the owners are written with the object
	}
	root, ok := f.root(r)
	if !ok {
		return k, false
	}
	w := pairWriter{types: root.types, buf: make([]byte, 0, 4096), ok: true}
	w.text(manager)
	for _, e := range owners {
		w.text(e.Manager)
		w.text(string(e.Operation))
		w.text(e.Subresource)
		w.text(string(e.FieldsV1.GetRawBytes()))
	}
	w.pair(root.ref, reflect.ValueOf(old), reflect.ValueOf(o))
	return updateKey{fieldDoor{r, sub}, sha256.Sum256(w.buf)}, w.ok
}

// remembered says whether what comes of owners follows from their sets alone.
func remembered(r *schema.Resource, owners []metav1.ManagedFieldsEntry) bool {
	updaters := 0
	for i, e := range owners {
		if e.APIVersion != r.APIVersion() || e.FieldsType != "FieldsV1" || e.FieldsV1 == nil {
			return false
		}
		if e.Operation == metav1.ManagedFieldsOperationUpdate {
			updaters++
		}
		if ownerTime(owners[:i], e) != nil {
			return false
		}
	}
	return len(owners) > 0 && updaters < cappedOwners
}

// remember notes what an update from the owners before to those of o comes to.
func (f *fieldManagers) remember(k updateKey, before []metav1.ManagedFieldsEntry, o schema.Object) {
	var out outcome
	for _, e := range o.GetManagedFields() {
		was := ownerTime(before, e)
		touched := was == nil || was.Time != e.Time
		e.Time, e.FieldsV1 = nil, &metav1.FieldsV1{Raw: e.FieldsV1.GetRawBytes()}
		out = append(out, ownerEntry{e, touched})
	}
	f.updates.keep(k, out)
}

// ownerTime finds the entry of the same owner.
func ownerTime(owners []metav1.ManagedFieldsEntry, e metav1.ManagedFieldsEntry) *metav1.ManagedFieldsEntry {
	for i := range owners {
		p := &owners[i]
		if p.Manager == e.Manager && p.Operation == e.Operation && p.Subresource == e.Subresource {
			return p
		}
	}
	return nil
}

// owners are those after an update that is remembered.
func (x outcome) owners(before []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	if len(x) == 0 {
		return nil
	}
	at := metav1.NewTime(time.Now().UTC())
	out := make([]metav1.ManagedFieldsEntry, len(x))
	for i, e := range x {
		out[i] = e.ManagedFieldsEntry
		out[i].FieldsV1 = &metav1.FieldsV1{Raw: e.FieldsV1.GetRawBytes()}
		if e.touched {
			out[i].Time = &at
		} else if was := ownerTime(before, out[i]); was != nil {
			out[i].Time = was.Time
			if bytes.Equal(was.FieldsV1.GetRawBytes(), out[i].FieldsV1.GetRawBytes()) {
				out[i].FieldsV1 = was.FieldsV1
			}
		}
	}
	slices.SortFunc(out, compareOwners)
	return out
}

// compareOwners is the order of managedFields.
func compareOwners(a, b metav1.ManagedFieldsEntry) int {
	return cmp.Or(cmp.Compare(a.Operation, b.Operation), cmp.Compare(seconds(a.Time), seconds(b.Time)),
		cmp.Compare(a.Manager, b.Manager), cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Subresource, b.Subresource))
}

func seconds(t *metav1.Time) int64 {
	if t == nil {
		return 0
	}
	return t.Unix()
}
