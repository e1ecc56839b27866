package server

import (
	"bufio"
	"context"
	"net"
	"net/http"
)

// hold counts a connection that leaves the HTTP server, which then knows
// nothing of it, and closes it when the server's context ends.
func (s *Server) hold(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, func()) {
	s.held.Add(1)
	return &holder{ResponseWriter: w, ctx: r.Context()}, s.held.Done
}

// holder is the writer of a response whose connection is taken over.
type holder struct {
	http.ResponseWriter
	ctx context.Context //nolint:containedctx // of the request that it answers
}

// Hijack implements http.Hijacker.
func (h *holder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err == nil {
		context.AfterFunc(h.ctx, func() { _ = conn.Close() })
	}
	return conn, rw, err
}

// Unwrap serves http.ResponseController.
func (h *holder) Unwrap() http.ResponseWriter { return h.ResponseWriter }
