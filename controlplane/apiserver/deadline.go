package apiserver

import (
	"net/http"
	"sync"
	"time"
)

// guard breaks off what a client does not take, or does not give, in time. It
// must be stopped before the handler returns: what a deadline is set on is
// nobody's then, and net/http panics.
type guard struct {
	mu    sync.Mutex
	over  bool
	timer *time.Timer
}

// guarded calls breakOff after d, unless the guard was stopped before.
func guarded(d time.Duration, breakOff func()) *guard {
	g := &guard{}
	g.timer = time.AfterFunc(d, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if !g.over {
			breakOff()
		}
	})
	return g
}

// Stop ends the guard. When it returns, the guard does nothing any more and is
// not doing anything.
func (g *guard) Stop() {
	g.timer.Stop()
	g.mu.Lock()
	g.over = true
	g.mu.Unlock()
}

// Reset begins the time anew.
func (g *guard) Reset(d time.Duration) { g.timer.Reset(d) }

// guardWrite breaks off a write that the client does not take. It must be
// stopped when the write is done.
func (w *responseWriter) guardWrite() *guard {
	rc := http.NewResponseController(w.ResponseWriter)
	return guarded(w.writeWithin, func() { _ = rc.SetWriteDeadline(time.Now()) })
}
