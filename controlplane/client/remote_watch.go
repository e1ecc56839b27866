package client

import (
	"context"
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/writ-os/writ/schema"
)

// Watch implements Reader. A connection that breaks is opened again from the
// last event on, without the caller noticing. What the caller sees is an
// Error event where that cannot be: the server has forgotten the place
// (apierrors.IsResourceExpired), or refuses the request.
func (c *RemoteClient) Watch(ctx context.Context, r *schema.Resource, o WatchOptions) (Watcher, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &remoteWatcher{client: c, resource: r, options: o, cancel: cancel, events: make(chan Event, 100)}
	w.initial = o.ResourceVersion == ""
	first, err := w.open(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	go w.run(ctx, first)
	return w, nil
}

type remoteWatcher struct {
	client   *RemoteClient
	resource *schema.Resource
	options  WatchOptions // ResourceVersion moves on with the events
	initial  bool         // the initial events are not complete
	cancel   context.CancelFunc
	events   chan Event
}

// Events implements Watcher.
func (w *remoteWatcher) Events() <-chan Event { return w.events }

// Stop implements Watcher.
func (w *remoteWatcher) Stop() { w.cancel() }

// open sends the request.
func (w *remoteWatcher) open(ctx context.Context) (watch.Interface, error) {
	req, err := w.client.request(http.MethodGet, w.resource, schema.Key{Namespace: w.options.Namespace}, "")
	if err != nil {
		return nil, err
	}
	opts := selectors(w.options.ListOptions)
	opts.Watch = true
	opts.AllowWatchBookmarks = true
	opts.ResourceVersion = w.options.ResourceVersion
	if w.initial {
		yes := true
		opts.SendInitialEvents = &yes
		opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
	return req.VersionedParams(&opts, metav1.ParameterCodec).Watch(ctx)
}

// run hands on events and opens the watch again when it ends.
func (w *remoteWatcher) run(ctx context.Context, stream watch.Interface) {
	defer close(w.events)
	defer w.cancel()
	b := backoff{since: time.Now()}
	for {
		err := w.copy(ctx, stream)
		stream.Stop()
		for err == nil {
			if ctx.Err() != nil {
				return
			}
			if w.initial {
				err = errors.New("watch broke off before the initial events were complete")
				break
			}
			if !b.wait(ctx) {
				return
			}
			var again watch.Interface
			if again, err = w.open(ctx); err == nil {
				stream = again
				break
			}
			if transient(err) {
				err = nil
			}
		}
		if err != nil {
			w.send(ctx, Event{Type: Error, Err: err})
			return
		}
	}
}

// transient says that the server may answer later.
func transient(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true // nobody answered
	}
	return apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err)
}

// copy hands on the events of one connection. The error is one that the server
// sent; nil when the connection ended.
func (w *remoteWatcher) copy(ctx context.Context, stream watch.Interface) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case in, ok := <-stream.ResultChan():
			if !ok {
				return nil
			}
			if in.Type == watch.Error {
				return errorOf(in)
			}
			o, ok := in.Object.(schema.Object)
			if !ok {
				continue
			}
			ev := Event{Type: EventType(in.Type), Object: named(w.resource, o)}
			if in.Type == watch.Bookmark {
				ev.InitialEventsEnd = o.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
				w.initial = w.initial && !ev.InitialEventsEnd
			}
			if !w.initial {
				w.options.ResourceVersion = o.GetResourceVersion()
			}
			if !w.send(ctx, ev) {
				return nil
			}
		}
	}
}

// errorOf reads the Status of an ERROR event. A decoding error of a broken
// stream comes this way too; that one is only a reason to open it again.
func errorOf(in watch.Event) error {
	err := apierrors.FromObject(in.Object)
	if transient(err) {
		return nil
	}
	return err
}

func (w *remoteWatcher) send(ctx context.Context, ev Event) bool {
	select {
	case w.events <- ev:
		return true
	case <-ctx.Done():
		return false
	}
}
