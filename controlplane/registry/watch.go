package registry

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

// watcher is a client.Watcher over a watch of the store.
type watcher struct {
	g      *Registry
	r      *schema.Resource
	opt    client.ListOptions
	events chan client.Event
	stop   chan struct{}
	once   sync.Once
}

// Watch implements client.Reader.
func (g *Registry) Watch(ctx context.Context, r *schema.Resource, o client.WatchOptions) (client.Watcher, error) {
	if err := CheckFields(r, o.Fields); err != nil {
		return nil, err
	}
	from, err := schema.ParseResourceVersion(o.ResourceVersion)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	w := &watcher{g: g, r: r, opt: o.ListOptions, events: make(chan client.Event), stop: make(chan struct{})}
	var initial *store.Snapshot
	if from == 0 {
		if err := g.current(ctx); err != nil {
			return nil, err
		}
		s := g.store.Snapshot(r)
		initial, from = &s, s.Version()
	}
	sw, err := g.store.Watch(r, from)
	if err != nil {
		return nil, WatchError(err, from, g.store.Version())
	}
	go w.run(ctx, initial, sw)
	return w, nil
}

// WatchError says in the words of the API why a watch cannot begin or go on.
func WatchError(err error, from, now schema.ResourceVersion) error {
	var lost *store.UnreadableError
	if errors.As(err, &lost) {
		return unreadable(lost)
	}
	if errors.Is(err, store.ErrExpired) {
		return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %v (%v)", from, now))
	}
	return apierrors.NewServiceUnavailable(fmt.Sprintf("watch: %v", err))
}

// Events implements client.Watcher.
func (w *watcher) Events() <-chan client.Event { return w.events }

// Stop implements client.Watcher.
func (w *watcher) Stop() { w.once.Do(func() { close(w.stop) }) }

func (w *watcher) run(ctx context.Context, initial *store.Snapshot, sw *store.Watch) {
	defer close(w.events)
	defer sw.Stop()
	if initial != nil && !w.begin(ctx, *initial) {
		return
	}
	for {
		select {
		case batch, ok := <-sw.Events():
			if !ok {
				if err := sw.Err(); err != nil && !errors.Is(err, store.ErrNotKept) {
					w.send(ctx, client.Event{Type: client.Error, Err: WatchError(err, sw.Progress(), 0)})
				}
				return
			}
			for _, e := range batch {
				ev, ok, err := w.translate(ctx, e)
				if err != nil {
					ev, ok = client.Event{Type: client.Error, Err: err}, true
				}
				if ok && !w.send(ctx, ev) || err != nil {
					return
				}
			}
		case <-w.stop:
			return
		case <-ctx.Done():
			return
		}
	}
}

// begin sends what exists, and the bookmark that ends it.
func (w *watcher) begin(ctx context.Context, s store.Snapshot) bool {
	items, err := w.g.selected(ctx, s, w.r, w.opt)
	if err != nil {
		w.send(ctx, client.Event{Type: client.Error, Err: err})
		return false
	}
	for _, it := range items {
		if !w.send(ctx, client.Event{Type: client.Added, Object: it.Object}) {
			return false
		}
	}
	mark := empty(w.r)
	mark.SetResourceVersion(s.Version().String())
	mark.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	return w.send(ctx, client.Event{Type: client.Bookmark, Object: mark, InitialEventsEnd: true})
}

// translate says what an event is to somebody who sees the selected objects
// only: one that begins to match is Added, one that ceases to is Deleted.
func (w *watcher) translate(ctx context.Context, e *store.Event) (ev client.Event, ok bool, err error) {
	items := []*store.Item{e.Item}
	if e.Prev != nil {
		items = append(items, e.Prev)
	}
	if items, err = w.g.Show(ctx, w.r, items...); err != nil {
		return ev, false, err
	}
	ev.Object = items[0].Object
	if e.Prev != nil {
		ev.Old = items[1].Object
	}
	is := e.Type != store.Deleted && Matches(w.r, ev.Object, w.opt)
	was := e.Prev != nil && Matches(w.r, ev.Old, w.opt)
	switch {
	case is && was:
		ev.Type = client.Modified
	case is:
		ev.Type, ev.Old = client.Added, nil
	case was:
		gone, err := w.g.Show(ctx, w.r, e.Gone())
		if err != nil {
			return ev, false, err
		}
		ev.Type, ev.Object = client.Deleted, gone[0].Object
	default:
		return ev, false, nil
	}
	return ev, true, nil
}

func (w *watcher) send(ctx context.Context, e client.Event) bool {
	select {
	case w.events <- e:
		return true
	case <-w.stop:
	case <-ctx.Done():
	}
	return false
}
