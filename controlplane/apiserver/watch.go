package apiserver

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"golang.org/x/net/websocket"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

// minWatch is how long a watch lasts at least when the client does not say;
// up to twice that, so that clients do not come back all at once.
const minWatch = 30 * time.Minute

// watch answers a WATCH from the store's log of events.
func (s *Server) watch(x *exchange, r *schema.Resource) error {
	out, err := negotiate(x.r, allowFor(r))
	if err != nil {
		return err
	}
	out.Pretty = false
	if out.Media == mediaYAML {
		return errNotAcceptable([]string{"application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch"})
	}
	o, err := parseListOptions(r, &x.route, x.r.URL.Query())
	if err != nil {
		return err
	}
	if o.any || o.initial {
		if err := s.asked(x.r.Context(), o.latest, o.version); err != nil {
			return err
		}
	}
	include := metav1.IncludeMetadata
	if out.table() {
		if include, err = includeObject(x.r); err != nil {
			return err
		}
	}
	ws := &watchStream{
		s: s, x: x, r: r, o: o, rc: http.NewResponseController(x.ResponseWriter),
		enc: &frameEncoder{out: out, include: include, resource: r, table: s.tableOf(r)},
		met: s.met.watchEvents(r), views: x.now.views.of(r),
	}
	o.filter.show = ws.views.show(x.r.Context())
	return ws.run()
}

// watchStream is one client that watches.
type watchStream struct {
	s   *Server
	x   *exchange
	r   *schema.Resource
	o   *listOptions
	enc *frameEncoder
	rc  *http.ResponseController
	met interface{ Inc() }
	// views are what the client gets to see; nil: what the store has.
	views *views

	w      *store.Watch
	broken bool // an error has ended the stream

	// socket is the WebSocket that the client has opened, gone is closed when
	// it leaves; nil: the answer is a stream.
	socket *websocket.Conn
	gone   chan struct{}
}

// run opens the watch and sends events until one side ends it. An error is
// returned only while nothing has been sent.
func (ws *watchStream) run() error {
	var snap store.Snapshot
	from := ws.o.version
	if ws.o.initial {
		snap = ws.s.cfg.Store.Snapshot(ws.r)
		from = snap.Version()
	}
	w, err := ws.s.cfg.Store.Watch(ws.r, from)
	if errors.Is(err, store.ErrExpired) {
		return errExpired(from, ws.s.cfg.Store.Version())
	}
	var lost *store.UnreadableError
	if errors.As(err, &lost) {
		return errUnreadable(lost)
	}
	if err != nil {
		return err
	}
	defer w.Stop()
	ws.w = w
	ws.x.Header().Set("Content-Type", ws.enc.contentType())
	if isWebSocket(ws.x.r) {
		ws.overSocket(func() { ws.serve(snap) })
		return nil
	}
	ws.x.WriteHeader(http.StatusOK)
	ws.serve(snap)
	return nil
}

// serve sends what exists, where that is asked for, and then changes.
func (ws *watchStream) serve(snap store.Snapshot) {
	if ws.o.initial && !ws.sendInitial(snap) {
		return
	}
	if ws.flush() == nil {
		ws.follow()
	}
}

// sendInitial sends what exists, and the mark at which a client knows that it
// has seen all of it.
func (ws *watchStream) sendInitial(snap store.Snapshot) bool {
	stuck := ws.x.guardWrite()
	defer stuck.Stop()
	f := &ws.o.filter
	ok := true
	send := func(it *store.Item) bool {
		if f.matches(it) {
			stuck.Reset(ws.x.writeWithin)
			frame := ws.initial(it)
			ok = frame != nil && ws.write(frame)
		}
		return ok
	}
	switch {
	case f.node != "":
		for it := range snap.Index(store.IndexNode, f.node) {
			if !send(it) {
				break
			}
		}
	default:
		snap.Ascend(schema.Key{Namespace: f.namespace}, func(it *store.Item) bool {
			return (f.namespace == "" || it.Key.Namespace == f.namespace) && send(it)
		})
	}
	if ok && ws.o.bookmarks {
		ok = ws.write(ws.enc.bookmark(snap.Version(), true))
	}
	return ok
}

// follow sends changes until the client, the server or the time is up.
func (ws *watchStream) follow() {
	end := time.NewTimer(ws.lifetime())
	defer end.Stop()
	var tick <-chan time.Time
	if ws.o.bookmarks {
		t := time.NewTicker(ws.s.cfg.BookmarkEvery)
		defer t.Stop()
		tick = t.C
	}
	for {
		select {
		case batch, ok := <-ws.w.Events():
			if !ok {
				ws.sendEnd()
				return
			}
			if !ws.sendBatch(batch) {
				return
			}
		case <-tick:
			if !ws.sendBookmark() {
				return
			}
		case <-end.C:
			if ws.o.bookmarks {
				ws.sendBookmark()
			}
			return
		case <-ws.x.r.Context().Done():
			return
		case <-ws.gone:
			return
		case <-ws.s.life.Done():
			return
		}
	}
}

func (ws *watchStream) lifetime() time.Duration {
	if ws.o.timeout > 0 {
		return ws.o.timeout
	}
	return minWatch + time.Duration(rand.Int64N(int64(minWatch)))
}

// sendBatch sends what the client selects of a batch, in one flush.
func (ws *watchStream) sendBatch(batch []*store.Event) bool {
	sent := false
	var stuck *guard
	for _, e := range batch {
		frame := ws.frame(e)
		if ws.broken {
			return false
		}
		if frame == nil {
			continue
		}
		if stuck == nil {
			stuck = ws.x.guardWrite()
			defer stuck.Stop()
		}
		if !ws.write(frame) {
			return false
		}
		sent = true
	}
	return !sent || ws.socket != nil || ws.rc.Flush() == nil
}

// initial encodes an object that exists; nil when it cannot be shown.
func (ws *watchStream) initial(it *store.Item) []byte {
	shown, err := ws.views.one(ws.x.r.Context(), it)
	if err != nil {
		ws.fail(err)
		return nil
	}
	return ws.enc.item(store.Added, shown)
}

// frame encodes an event for this client; nil leaves it out. What a selector
// matches may come and go without the object being created or deleted.
func (ws *watchStream) frame(e *store.Event) []byte {
	f := &ws.o.filter
	t, it := store.EventType(""), e.Item
	switch was, is := f.matches(e.Prev), f.matches(e.Item); {
	case e.Type == store.Deleted:
		if was || is && e.Prev == nil {
			t = store.Deleted
		}
	case is && was:
		t = store.Modified
	case is:
		t = store.Added
	case was:
		t, it = store.Deleted, e.Gone()
	}
	if t == "" {
		return nil
	}
	if ws.enc.out.Convert.Kind == "PartialObjectMetadataList" {
		ws.broken = true // as upstream, which finds out with the first event
		return nil
	}
	shown, err := ws.views.one(ws.x.r.Context(), it)
	switch {
	case err != nil:
		ws.fail(err)
		return nil
	case shown == e.Item:
		return ws.enc.event(t, e)
	}
	return ws.enc.item(t, shown)
}

// fail ends the stream with an error that the client sees.
func (ws *watchStream) fail(err error) {
	if ws.broken {
		return
	}
	ws.broken = true
	if ws.write(ws.enc.failure(err)) {
		_ = ws.flush()
	}
}

func (ws *watchStream) write(frame []byte) bool {
	ws.met.Inc()
	if ws.socket != nil {
		return ws.send(frame) == nil
	}
	_, err := ws.x.Write(frame)
	return err == nil
}

func (ws *watchStream) flush() error {
	if ws.socket != nil {
		return nil
	}
	defer ws.x.guardWrite().Stop()
	return ws.rc.Flush()
}

func (ws *watchStream) sendBookmark() bool {
	return ws.write(ws.enc.bookmark(ws.w.Progress(), false)) && ws.flush() == nil
}

// sendEnd tells a client that was too slow to list again, and one of a resource
// that cannot be read any more why. A server that ends just closes the stream.
func (ws *watchStream) sendEnd() {
	var lost *store.UnreadableError
	var why error
	switch err := ws.w.Err(); {
	case errors.Is(err, store.ErrExpired):
		why = errExpired(ws.w.Progress(), ws.s.cfg.Store.Version())
	case errors.As(err, &lost):
		why = errUnreadable(lost)
	default:
		return
	}
	if ws.write(ws.enc.failure(why)) {
		_ = ws.flush()
	}
}
