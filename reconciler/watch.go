package reconciler

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/health"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/report"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// maxUnhealthy is how many unhealthy objects a Commit names.
const maxUnhealthy = 20

// watch follows the declared objects: how they are, and which of them were
// changed by someone else. Events only mark objects; what they mean is decided
// when the reconciler takes them, on the newest state.
type watch struct {
	cache  client.Cache
	served func(*schema.Resource) bool // whether the server knows a kind by now
	notify chan struct{}

	mu       sync.Mutex
	declared map[render.Ref]struct{}
	awaited  map[render.Ref]struct{} // objects of others that declared ones depend on
	pending  map[render.Ref]pending
	// early is what happens to objects that are about to be declared, from
	// before they are planned until they are followed.
	early map[render.Ref]pending
	// missing are the declared objects that were not there when they were last
	// looked at. following says that all declared objects are, and are heard of.
	missing   map[render.Ref]struct{}
	following bool

	// Only the reconciler's goroutine touches these.
	rules      *health.Rules // of the commit; nil: the built-in judgement
	judged     *health.Rules // that the objects were last looked at by
	subscribed map[*schema.Resource]bool
	unhealthy  map[render.Ref]health.Health
}

// pending is what has happened to an object since it was last looked at.
type pending struct {
	changed bool   // more than its status
	version string // the newest version that changed more than the status
}

func newWatch(cache client.Cache, served func(*schema.Resource) bool) *watch {
	return &watch{cache: cache, served: served, notify: make(chan struct{}, 1), declared: map[render.Ref]struct{}{}, pending: map[render.Ref]pending{},
		missing: map[render.Ref]struct{}{}, subscribed: map[*schema.Resource]bool{}, unhealthy: map[render.Ref]health.Health{}}
}

// expect notes what happens to objects that are about to be planned and are
// not followed yet: who deletes one meanwhile would not be heard else.
func (w *watch) expect(ctx context.Context, heads []render.Head) error {
	w.mu.Lock()
	if w.early == nil {
		w.early = map[render.Ref]pending{}
	}
	for i := range heads {
		_, declared := w.declared[heads[i].Ref]
		if _, early := w.early[heads[i].Ref]; !declared && !early {
			w.early[heads[i].Ref] = pending{}
		}
	}
	w.mu.Unlock()
	for i := range heads {
		if err := w.subscribe(ctx, heads[i].Resource); err != nil {
			return err
		}
	}
	return nil
}

// expectNothing forgets what was expected of a commit that did not come.
func (w *watch) expectNothing() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.early = nil
}

// follow sets the objects to watch, and looks at all of them.
func (w *watch) follow(ctx context.Context, heads []render.Head) error {
	declared := make(map[render.Ref]struct{}, len(heads))
	for i := range heads {
		declared[heads[i].Ref] = struct{}{}
	}
	w.mu.Lock()
	w.declared, w.following = declared, false
	maps.DeleteFunc(w.pending, func(ref render.Ref, _ pending) bool { _, ok := declared[ref]; return !ok })
	clear(w.missing)
	w.arrived()
	w.mu.Unlock()
	return w.hear(ctx, heads, true)
}

// change adds objects to those that are watched, or looks at them again, and
// takes others out.
func (w *watch) change(ctx context.Context, heads []render.Head, gone []render.Ref) error {
	w.mu.Lock()
	for _, ref := range gone {
		delete(w.declared, ref)
		delete(w.pending, ref)
		delete(w.missing, ref)
	}
	for i := range heads {
		w.declared[heads[i].Ref] = struct{}{}
	}
	w.arrived()
	w.mu.Unlock()
	for _, ref := range gone {
		delete(w.unhealthy, ref)
	}
	return w.hear(ctx, heads, w.judged.Hash() != w.rules.Hash())
}

// arrived takes what has happened to objects before they were watched for what
// has happened to them. The caller holds the lock.
func (w *watch) arrived() {
	for ref, p := range w.early {
		if _, ok := w.declared[ref]; ok && p.changed {
			w.pending[ref] = p
		}
	}
	w.early = nil
	if len(w.pending) > 0 {
		w.ring()
	}
}

// hear subscribes to the kinds of objects that are new, and looks at them, or
// at all that are watched.
func (w *watch) hear(ctx context.Context, heads []render.Head, all bool) error {
	var failed error // what cannot be subscribed to is looked at all the same
	for i := range heads {
		if err := w.subscribe(ctx, heads[i].Resource); err != nil && failed == nil {
			failed = err
		}
	}
	if all {
		w.judged = w.rules
		clear(w.unhealthy)
		w.look(slices.Collect(maps.Keys(w.declared))) // which only this goroutine changes
	} else {
		refs := slices.Collect(maps.Keys(w.unhealthy)) // it may be for the sake of other objects
		for i := range heads {
			refs = append(refs, heads[i].Ref)
		}
		w.look(refs)
	}
	w.mu.Lock()
	w.following = failed == nil && (all || w.following)
	w.mu.Unlock()
	return failed
}

// touched are the watched objects that have changed and were not taken yet, or
// were not there; false: not all that is declared is watched.
func (w *watch) touched() ([]render.Ref, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := slices.Collect(maps.Keys(w.missing))
	for ref, p := range w.pending {
		if p.changed {
			out = append(out, ref)
		}
	}
	return out, w.following
}

func (w *watch) subscribe(ctx context.Context, r *schema.Resource) error {
	if w.subscribed[r] || r.Custom != nil && !w.served(r) {
		return nil
	}
	w.subscribed[r] = true
	if err := w.cache.Subscribe(ctx, r, func(ev client.Event) { w.observe(r, ev) }); err != nil {
		return fmt.Errorf("subscribe to %s: %w", r, err)
	}
	return nil
}

// await sets the objects of other repositories whose events wake those that
// depend on them.
func (w *watch) await(ctx context.Context, byName map[string]render.Ref) error {
	awaited := make(map[render.Ref]struct{}, len(byName))
	for _, ref := range byName {
		awaited[ref] = struct{}{}
	}
	w.mu.Lock()
	w.awaited = awaited
	w.mu.Unlock()
	for ref := range awaited {
		if err := w.subscribe(ctx, ref.Resource); err != nil {
			return err
		}
	}
	return nil
}

// observe notes an event. It runs in the cache's goroutine and must be quick.
func (w *watch) observe(r *schema.Resource, ev client.Event) {
	if ev.Object == nil {
		return
	}
	ref := render.Ref{Resource: r, Key: schema.KeyOf(ev.Object)}
	w.mu.Lock()
	_, declared := w.declared[ref]
	_, awaited := w.awaited[ref]
	if declared {
		p := w.pending[ref]
		if drifted(ev) {
			p.changed, p.version = true, ev.Object.GetResourceVersion()
		}
		w.pending[ref] = p
	}
	if p, ok := w.early[ref]; ok && drifted(ev) {
		p.changed, p.version = true, ev.Object.GetResourceVersion()
		w.early[ref] = p
	}
	w.mu.Unlock()
	if declared || awaited {
		w.ring()
	}
}

func (w *watch) ring() {
	select {
	case w.notify <- struct{}{}:
	default:
	}
}

// drifted says whether an event may have changed what Git declares.
func drifted(ev client.Event) bool {
	switch {
	case ev.Type == client.Deleted:
		return true
	case ev.Type != client.Modified:
		return false
	case ev.Old == nil:
		return true
	case ev.Object.GetGeneration() == 0, ev.Object.GetGeneration() != ev.Old.GetGeneration():
		return true
	}
	return !maps.Equal(ev.Object.GetLabels(), ev.Old.GetLabels()) || !sameNotes(ev.Object.GetAnnotations(), ev.Old.GetAnnotations())
}

// revision is the note that the Deployment controller writes into every new
// Deployment, and at every rollout.
const revision = "deployment.kubernetes.io/revision"

// sameNotes says whether annotations are the same but for the controller's own.
// To compare each Deployment with its manifest again for it cost more than to plan the commit.
func sameNotes(a, b map[string]string) bool {
	_, one := a[revision]
	_, other := b[revision]
	if !one && !other {
		return maps.Equal(a, b)
	}
	a, b = maps.Clone(a), maps.Clone(b)
	delete(a, revision)
	delete(b, revision)
	return maps.Equal(a, b)
}

// take returns what has happened since the last call, and takes a new look at
// the health of every object concerned.
func (w *watch) take() map[render.Ref]pending {
	w.mu.Lock()
	out := w.pending
	w.pending = map[render.Ref]pending{}
	w.mu.Unlock()
	w.look(slices.Collect(maps.Keys(out)))
	return out
}

// look computes the health of objects from the cache.
func (w *watch) look(refs []render.Ref) {
	objects := make([]schema.Object, len(refs))
	for i, ref := range refs {
		if o, ok := w.cache.Get(ref.Resource, ref.Key); ok {
			objects[i] = o
		}
	}
	w.mu.Lock()
	for i, ref := range refs {
		if objects[i] != nil {
			delete(w.missing, ref)
		} else {
			w.missing[ref] = struct{}{}
		}
	}
	w.mu.Unlock()
	for i, h := range w.rules.All(objects, w.cache) {
		if h.Status == health.Healthy {
			delete(w.unhealthy, refs[i])
		} else {
			w.unhealthy[refs[i]] = h
		}
	}
}

// health sums up: the worst come first.
func (w *watch) health() report.Health {
	w.mu.Lock()
	total := len(w.declared)
	w.mu.Unlock()
	out := report.Health{Total: total, Ready: total - len(w.unhealthy)}
	for ref, h := range w.unhealthy {
		if h.Status == health.Progressing {
			out.Moving++
		}
		if o := ref.String(); h.Stalled && (out.Stalled == nil || o < out.Stalled.Object) {
			out.Stalled = &v1alpha1.ObjectHealth{Object: o, Health: string(h.Status), Message: h.Message}
		}
		out.Unhealthy = append(out.Unhealthy, v1alpha1.ObjectHealth{Object: ref.String(), Health: string(h.Status), Message: h.Message})
	}
	slices.SortFunc(out.Unhealthy, func(a, b v1alpha1.ObjectHealth) int {
		return cmp.Or(cmp.Compare(badness(b.Health), badness(a.Health)), cmp.Compare(a.Object, b.Object))
	})
	out.Unhealthy = out.Unhealthy[:min(len(out.Unhealthy), maxUnhealthy)]
	return out
}

func badness(s string) int {
	switch health.Status(s) {
	case health.Degraded:
		return 3
	case health.Missing:
		return 2
	}
	return 1
}
