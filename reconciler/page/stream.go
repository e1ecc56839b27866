package page

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"
)

// stream is one open page that wants to hear of changes.
type stream struct {
	user   string
	topics map[string]bool
	wake   chan struct{}

	// Under the lock of the hub.
	pending map[access]struct{}
	all     bool // more has changed than pending could hold
}

const (
	// gap is the least time between two words to a page, and settle how long the
	// first waits for others: a commit changes many objects at once.
	gap    = 500 * time.Millisecond
	settle = 30 * time.Millisecond
	// heartbeat keeps proxies from closing a quiet stream.
	heartbeat = 15 * time.Second
	// maxAge of a stream. The browser comes again, and is authenticated again.
	maxAge = time.Hour
	// recheck is how long an answer about the viewer's rights holds.
	recheck = 30 * time.Second
	// maxPending bounds what a stream remembers.
	maxPending = 256
)

// note is called under the lock of the hub.
func (s *stream) note(a access) {
	if len(s.pending) >= maxPending {
		s.all = true
	}
	if !s.all {
		s.pending[a] = struct{}{}
	}
	s.ring()
}

func (s *stream) noteAll() {
	s.all = true
	s.ring()
}

func (s *stream) ring() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// take returns whether anything has changed that the viewer may see.
func (h *hub) take(s *stream, v *viewer) bool {
	h.mu.Lock()
	pending, all := s.pending, s.all
	s.pending, s.all = map[access]struct{}{}, false
	h.mu.Unlock()
	if all {
		return true
	}
	for a := range pending {
		if v.mayList(a.resource, a.namespace) {
			return true
		}
	}
	return false
}

// serve is one stream of server-sent events: "changed" whenever something has,
// at most every gap; comments in between. It says nothing of what has changed:
// the page asks for itself, as the viewer that it is.
func (h *hub) serve(w http.ResponseWriter, r *http.Request, v *viewer) {
	s := &stream{user: v.name, topics: map[string]bool{}, wake: make(chan struct{}, 1), pending: map[access]struct{}{}}
	for _, t := range strings.SplitN(cut(r.URL.Query().Get("topics"), maxText), ",", 8) {
		s.topics[t] = true
	}
	leave, ended, err := h.join(s)
	if err != nil {
		w.Header().Set("Retry-After", "10")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer leave()
	head := w.Header()
	head.Set("Content-Type", "text/event-stream; charset=utf-8")
	head.Set("Cache-Control", "no-store")
	head.Set("X-Accel-Buffering", "no")
	if r.Method == http.MethodHead {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), maxAge)
	defer cancel()
	rc := http.NewResponseController(w)
	send := func(text string) bool {
		_, err := io.WriteString(w, text)
		return err == nil && rc.Flush() == nil
	}
	if send("retry: 1500\n: hello\n\n") {
		h.follow(ctx, s, v, ended, send)
	}
}

// follow sends until the page, the process or the hour is over.
func (h *hub) follow(ctx context.Context, s *stream, v *viewer, ended <-chan struct{}, send func(string) bool) {
	beat, fresh := time.NewTicker(heartbeat), time.NewTicker(recheck)
	defer beat.Stop()
	defer fresh.Stop()
	// due is set while a word waits for its time; last is when the last went out.
	var due <-chan time.Time
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-ended:
			return
		case <-fresh.C:
			v.forget()
		case <-beat.C:
			if !send(": alive\n\n") {
				return
			}
		case <-s.wake:
			if due == nil {
				due = time.After(max(settle, gap-time.Since(last)))
			}
		case <-due:
			due = nil
			if !h.take(s, v) {
				continue
			}
			last = time.Now()
			if !send("event: changed\ndata: 1\n\n") {
				return
			}
		}
	}
}
