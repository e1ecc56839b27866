package apiserver

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"time"

	"github.com/writ-os/writ/controlplane/apiserver/audit"
)

// responseWriter remembers what was answered.
type responseWriter struct {
	http.ResponseWriter
	// life ends with the server, and a connection that was hijacked with it.
	life context.Context
	// writeWithin is how long one chunk may take on its way to the client.
	writeWithin time.Duration

	code  int
	bytes int64
	// event is the audit record of the request; nil: none.
	event *audit.Event
}

func (w *responseWriter) WriteHeader(code int) {
	if w.code == 0 && code >= 200 {
		w.code = code
		w.event.Started(code)
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *responseWriter) Write(b []byte) (int, error) {
	if w.code == 0 {
		w.code = http.StatusOK
		w.event.Started(w.code)
	}
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// Flush implements http.Flusher.
func (w *responseWriter) Flush() {
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack implements http.Hijacker, for streams that upgrade the connection.
func (w *responseWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w.code == 0 {
		w.code = http.StatusSwitchingProtocols
		w.event.Started(w.code)
	}
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil && w.life != nil {
		context.AfterFunc(w.life, func() { _ = conn.Close() })
	}
	return conn, rw, err
}

// Unwrap lets http.ResponseController find the real one.
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
