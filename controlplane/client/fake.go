package client

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/writ-os/writ/schema"
)

// Fake is a Backend in memory for tests. It holds real state with the rules
// of the API: resource versions and conflicts, generated names, generations,
// the split of spec and status, finalizers, graceful deletion of pods,
// selectors, watches that resume, transactions that store all or nothing. It
// knows neither users nor admission nor validation.
//
// Subscribers of its Cache are called before a write returns, so that a test
// needs no waiting; a NewCache over a Fake lags as one over a network does.
type Fake struct {
	// Catalog names the custom resources that Put is given objects of. To be set
	// before.
	Catalog *schema.Live

	rejecting sync.Mutex // guards the call of hook, and hook
	hook      Refusal

	mu        sync.Mutex
	version   uint64
	objects   map[*schema.Resource]map[schema.Key]schema.Object
	history   []change
	compacted uint64 // watches from before this version are expired
	writes    int
	undo      []change
	watchers  map[*fakeWatcher]struct{}
	subs      map[*fakeSub]struct{}
	undrained []change // not yet shown to subscribers
	draining  bool
	held      bool
}

// Refusal is asked before each write and refuses it by an error.
type Refusal func(verb Verb, r *schema.Resource, subresource string, o schema.Object) error

// Reject asks hook before each write from now on; nil asks nobody. The hook is
// called by one goroutine at a time. It may read the Fake and must not write.
func (f *Fake) Reject(hook Refusal) {
	f.rejecting.Lock()
	defer f.rejecting.Unlock()
	f.hook = hook
}

// change is one stored write. Of a deletion next is the last state, with the
// version of the deletion.
type change struct {
	resource *schema.Resource
	key      schema.Key
	old      schema.Object
	next     schema.Object
	deleted  bool
	version  uint64
}

var _ Backend = (*Fake)(nil)

// NewFake returns a Fake that holds the objects, as if they had been created
// with their status.
func NewFake(objects ...schema.Object) *Fake {
	f := &Fake{
		version:  1,
		objects:  map[*schema.Resource]map[schema.Key]schema.Object{},
		watchers: map[*fakeWatcher]struct{}{},
		subs:     map[*fakeSub]struct{}{},
	}
	for _, o := range objects {
		f.Put(o)
	}
	return f
}

// Put stores an object as it is, status and all, over what there was. It is
// for the setting of a test; nothing of the API's rules is applied but a UID,
// a creation time and a new resource version.
func (f *Fake) Put(o schema.Object) schema.Object {
	r := f.Catalog.Load().ResourceOf(o)
	next := deepCopy(o)
	stampNew(r, next)
	f.mu.Lock()
	old := f.objects[r][schema.KeyOf(o)]
	f.set(r, old, next)
	f.commit()
	f.mu.Unlock()
	f.drain()
	return next
}

// Writes counts the changes that have been stored.
func (f *Fake) Writes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writes
}

// Get implements Reader.
func (f *Fake) Get(_ context.Context, r *schema.Resource, key schema.Key) (schema.Object, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o, ok := f.objects[r][key]
	if !ok {
		return nil, apierrors.NewNotFound(r.GroupResource(), key.Name)
	}
	return o, nil
}

// List implements Reader.
func (f *Fake) List(_ context.Context, r *schema.Resource, o ListOptions) (List, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return List{Items: f.selectLocked(r, o), ResourceVersion: formatVersion(f.version)}, nil
}

// selectLocked returns the objects that the options select, by key.
func (f *Fake) selectLocked(r *schema.Resource, o ListOptions) []schema.Object {
	var out []schema.Object
	for _, obj := range f.objects[r] {
		if matches(obj, o) {
			out = append(out, obj)
		}
	}
	sortByKey(out)
	return out
}

// set stores next in the place of old and remembers how to take it back.
func (f *Fake) set(r *schema.Resource, old, next schema.Object) {
	f.version++
	next.SetResourceVersion(formatVersion(f.version))
	next.GetObjectKind().SetGroupVersionKind(r.GVK())
	if f.objects[r] == nil {
		f.objects[r] = map[schema.Key]schema.Object{}
	}
	key := schema.KeyOf(next)
	f.objects[r][key] = next
	f.undo = append(f.undo, change{resource: r, key: key, old: old, next: next, version: f.version})
}

// remove takes an object away; last is its state at that moment.
func (f *Fake) remove(r *schema.Resource, old, last schema.Object) schema.Object {
	f.version++
	last = deepCopy(last)
	last.SetResourceVersion(formatVersion(f.version))
	key := schema.KeyOf(old)
	delete(f.objects[r], key)
	f.undo = append(f.undo, change{resource: r, key: key, old: old, next: last, deleted: true, version: f.version})
	return last
}

// rollback takes back all that was set since the last commit.
func (f *Fake) rollback() {
	for i := len(f.undo) - 1; i >= 0; i-- {
		c := f.undo[i]
		if c.old == nil {
			delete(f.objects[c.resource], c.key)
		} else {
			f.objects[c.resource][c.key] = c.old
		}
	}
	f.undo = nil
}

// commit makes what was set visible to watches and subscribers.
func (f *Fake) commit() {
	for _, c := range f.undo {
		f.writes++
		f.history = append(f.history, c)
		f.undrained = append(f.undrained, c)
		for w := range f.watchers {
			w.push(c)
		}
	}
	f.undo = nil
}

// do runs one write under the lock, all of it or nothing.
func (f *Fake) do(dryRun bool, write func() (schema.Object, error)) (schema.Object, error) {
	f.mu.Lock()
	o, err := write()
	if err != nil || dryRun {
		f.rollback()
	} else {
		f.commit()
	}
	f.mu.Unlock()
	f.drain()
	return o, err
}

// reject asks the test's hook.
func (f *Fake) reject(v Verb, r *schema.Resource, sub string, o schema.Object) error {
	f.rejecting.Lock()
	defer f.rejecting.Unlock()
	if f.hook == nil {
		return nil
	}
	return f.hook(v, r, sub, o)
}

// now is the wall clock at the precision of the API.
func now() time.Time { return time.Now().Truncate(time.Second) }
