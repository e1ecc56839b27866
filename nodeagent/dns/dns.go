// Package dns answers the names of Services and pods from the node's own watch.
package dns

import (
	"context"
	"log/slog"
	"net/netip"

	"github.com/writ-os/writ/controlplane/client"
)

// Config is everything the server needs from outside.
type Config struct {
	Cache client.Cache
	// Addr are the addresses to listen on, by UDP and TCP. They need not exist
	// yet.
	Addr []netip.AddrPort
	// Domain of the cluster. Default "cluster.local".
	Domain string
	// Upstreams answer all other names. Nil reads /etc/resolv.conf; empty but
	// not nil means none.
	Upstreams []netip.AddrPort
	Log       *slog.Logger
}

// Server answers DNS queries.
type Server struct {
	cfg   Config
	ready chan struct{}
}

// New returns a server; it listens only in Run.
func New(cfg Config) *Server { return &Server{cfg: cfg, ready: make(chan struct{})} }

// Ready is closed when the server answers from complete tables.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Run serves until ctx is done.
func (s *Server) Run(ctx context.Context) error { <-ctx.Done(); return nil }
