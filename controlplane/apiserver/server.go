package apiserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/writ-os/writ/controlplane/apiserver/cbor"
	"github.com/writ-os/writ/controlplane/auth/impersonation"
)

// Server is the HTTP face of the control plane.
type Server struct {
	cfg     Config
	met     *metrics
	pages   *pages
	current atomic.Pointer[served]
	metrics http.Handler

	impersonation *impersonation.Checker
	owners        questionOwners

	// building is held by who makes the next served.
	building sync.Mutex

	// life ends when Run does: watches and streams end with it.
	life context.Context
	stop context.CancelFunc
}

// New returns a server; it starts nothing.
func New(cfg Config) *Server {
	cfg = cfg.withDefaults()
	s := &Server{
		cfg:   cfg,
		met:   newMetrics(cfg.Metrics),
		pages: newPages(cfg.ContinueFor),

		impersonation: impersonation.New(cfg.Authorizer),
	}
	s.life, s.stop = context.WithCancel(context.Background())
	s.metrics = metricsHandler(cfg.Metrics)
	return s
}

// Handler serves the API to whoever the Authenticator knows. It works without
// Run, on any transport.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serve) }

// masters is everybody on the unix socket: the file's mode says who that is.
var masters = &user.DefaultInfo{Name: "system:admin", Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}

// Run serves until ctx is done, then lets requests finish. It returns the
// first error of a listener.
func (s *Server) Run(ctx context.Context) error {
	tlsServer := s.httpServer(s.Handler())
	tlsServer.TLSConfig = s.cfg.TLS.Clone()
	if tlsServer.TLSConfig == nil {
		tlsServer.TLSConfig = &tls.Config{}
	}
	tlsServer.TLSConfig.MinVersion = max(tlsServer.TLSConfig.MinVersion, tls.VersionTLS12)
	servers := []*http.Server{tlsServer}

	g, ctx := errgroup.WithContext(ctx)
	for _, l := range s.cfg.Listeners {
		g.Go(func() error { return ended(tlsServer.ServeTLS(l, "", "")) })
	}
	if s.cfg.Socket != "" {
		l, err := listenSocket(s.cfg.Socket)
		if err != nil {
			return err
		}
		local := s.httpServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serveAs(w, r, masters) }))
		servers = append(servers, local)
		g.Go(func() error { return ended(local.Serve(l)) })
	}
	g.Go(func() error { return s.describe(ctx) })
	g.Go(func() error {
		<-ctx.Done()
		s.stop()
		defer s.cfg.Way.Close()
		return shutdown(servers, s.cfg.Grace)
	})
	s.cfg.Log.Info("api server is serving", "addresses", addresses(s.cfg.Listeners), "version", s.cfg.Version)
	return g.Wait()
}

// httpServer sets the limits that keep slow and greedy clients harmless. There
// is no ReadTimeout, which would end watches: bodies are read under a deadline
// of their own, and so are responses written.
func (s *Server) httpServer(h http.Handler) *http.Server {
	if s.cfg.CBOR {
		h = cbor.Handler(h, cbor.Limits{Body: maxBody, Within: s.cfg.BodyWithin})
	}
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: s.cfg.HeaderWithin,
		IdleTimeout:       3 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 1000, // one client-go transport carries all watches of a process
			SendPingTimeout:      30 * time.Second,
			PingTimeout:          15 * time.Second,
			WriteByteTimeout:     s.cfg.WriteWithin,
		},
	}
}

func ended(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve api: %w", err)
}

// shutdown lets requests finish within grace and closes what is left.
func shutdown(servers []*http.Server, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	for _, srv := range servers {
		if err := srv.Shutdown(ctx); err != nil {
			_ = srv.Close() // the clients that hold on lose their connections
		}
	}
	return nil
}

// listenSocket opens a unix socket that only its owner may use. A file left by
// a process that died is replaced.
func listenSocket(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("replace socket %s: %w", path, err)
	}
	l, err := listenPrivate(path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return l, nil
}

func addresses(ls []net.Listener) []string {
	var all []string
	for _, l := range ls {
		all = append(all, l.Addr().String())
	}
	return all
}
