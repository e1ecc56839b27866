package apiserver

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

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
		if err := s.reach(x.r.Context(), o.version); err != nil {
			return err
		}
	}
	include, err := includeObject(x.r)
	if err != nil {
		return err
	}
	ws := &watchStream{
		s: s, x: x, r: r, o: o, rc: http.NewResponseController(x.ResponseWriter),
		enc: &frameEncoder{out: out, include: include, resource: r},
		met: s.met.watchEvents(r),
	}
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

	w *store.Watch
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
		return errExpired(from)
	}
	if err != nil {
		return err
	}
	defer w.Stop()
	ws.w = w
	ws.x.Header().Set("Content-Type", ws.enc.contentType())
	ws.x.WriteHeader(http.StatusOK)
	if ws.o.initial && !ws.sendInitial(snap) {
		return nil
	}
	if ws.flush() != nil {
		return nil
	}
	ws.follow()
	return nil
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
			stuck.Reset(writeWithin)
			ok = ws.write(ws.enc.item(store.Added, it))
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
	var stuck *time.Timer
	for _, e := range batch {
		frame := ws.frame(e)
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
	return !sent || ws.rc.Flush() == nil
}

// frame encodes an event for this client. What a selector matches may come and
// go without the object being created or deleted.
func (ws *watchStream) frame(e *store.Event) []byte {
	f := &ws.o.filter
	switch was, is := f.matches(e.Prev), f.matches(e.Item); {
	case e.Type == store.Deleted:
		if was || is && e.Prev == nil {
			return ws.enc.event(store.Deleted, e)
		}
	case is && was:
		return ws.enc.event(store.Modified, e)
	case is:
		return ws.enc.event(store.Added, e)
	case was:
		return ws.enc.item(store.Deleted, e.Gone())
	}
	return nil
}

func (ws *watchStream) write(frame []byte) bool {
	ws.met.Inc()
	_, err := ws.x.Write(frame)
	return err == nil
}

func (ws *watchStream) flush() error {
	defer ws.x.guardWrite().Stop()
	return ws.rc.Flush()
}

func (ws *watchStream) sendBookmark() bool {
	return ws.write(ws.enc.bookmark(ws.w.Progress(), false)) && ws.flush() == nil
}

// sendEnd tells a client that was too slow to list again. A server that ends
// just closes the stream.
func (ws *watchStream) sendEnd() {
	if !errors.Is(ws.w.Err(), store.ErrExpired) {
		return
	}
	if ws.write(ws.enc.failure(errExpired(ws.w.Progress()))) {
		_ = ws.flush()
	}
}
