package join

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// serverName is in the certificate of every server of a cluster, whatever its
// address is.
const serverName = "kubernetes"

// serversFile holds the addresses of all servers, one on each line: a machine
// that starts finds the cluster when the server is gone that it joined by.
const serversFile = "servers"

// The times in which a server that does not answer is left for another. A node
// is given up after 40 s.
const (
	dialWithin = 3 * time.Second
	silence    = 10 * time.Second // without a word for what was sent
	stayAtMost = 5 * time.Second  // between two changes for the word of a server
	maxServers = 64
)

// servers leads the connections of a node to one of the cluster's servers, and
// to another when that one is gone or says that it cannot serve.
type servers struct {
	path  string // "" remembers nothing
	write func(path string, data []byte, mode os.FileMode) error
	log   *slog.Logger
	dial  func(ctx context.Context, network, address string) (net.Conn, error)

	mu    sync.Mutex
	all   []string // host:port; the first is the one in use
	moved time.Time
	open  map[*serverConn]struct{}
}

// newServers begins with what is remembered, and the URL that the node joined by.
func newServers(path, joined string, write func(string, []byte, os.FileMode) error, log *slog.Logger) *servers {
	d := &net.Dialer{Timeout: dialWithin, Control: userTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 4 * time.Second, Interval: 2 * time.Second, Count: 3}}
	s := &servers{path: path, write: write, log: log, dial: d.DialContext, open: map[*serverConn]struct{}{}}
	if u, err := url.Parse(joined); err == nil && u.Host != "" {
		s.all = append(s.all, hostPort(u))
	}
	if b, err := os.ReadFile(path); err == nil {
		s.all = merge(s.all, strings.Fields(string(b)))
	}
	return s
}

func hostPort(u *url.URL) string {
	if u.Port() == "" {
		return net.JoinHostPort(u.Hostname(), "443")
	}
	return u.Host
}

// merge is known without repetition, with what else is told behind it.
func merge(known, told []string) []string {
	out := slices.Clone(known)
	for _, a := range told {
		if _, _, err := net.SplitHostPort(a); err == nil && !slices.Contains(out, a) && len(out) < maxServers {
			out = append(out, a)
		}
	}
	return out
}

// Learn takes over where the servers are now. None is no news: some server has
// told it.
func (s *servers) Learn(now []string) {
	if len(now) == 0 {
		return
	}
	s.mu.Lock()
	var next []string
	if len(s.all) > 0 && slices.Contains(now, s.all[0]) {
		next = s.all[:1:1] // the one in use stays it
	}
	next = merge(next, now)
	same := slices.Equal(slices.Sorted(slices.Values(next)), slices.Sorted(slices.Values(s.all)))
	s.all = next
	s.mu.Unlock()
	if same || s.path == "" {
		return
	}
	s.log.Info("servers of the cluster", "servers", next)
	if err := s.write(s.path, []byte(strings.Join(next, "\n")+"\n"), 0o600); err != nil {
		s.log.Warn("servers of the cluster not remembered", "err", err)
	}
}

// Dial is that of a rest.Config: the address that is asked for does not matter.
func (s *servers) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	var last error
	for range max(len(s.snapshot()), 1) {
		all := s.snapshot()
		if len(all) == 0 {
			return nil, fmt.Errorf("no server of the cluster is known")
		}
		c, err := s.dial(ctx, network, all[0])
		if err == nil {
			return s.track(c, all[0]), nil
		}
		last = err
		if ctx.Err() != nil {
			break
		}
		s.leave(all[0], err.Error())
	}
	return nil, last
}

func (s *servers) snapshot() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

// leave has the next connections go to another server, and ends those to this
// one.
func (s *servers) leave(address, why string) {
	s.mu.Lock()
	if len(s.all) < 2 || s.all[0] != address {
		s.mu.Unlock()
		return
	}
	s.all = append(slices.Clone(s.all[1:]), address)
	s.moved = time.Now()
	var end []*serverConn
	for c := range s.open {
		if c.server == address {
			end = append(end, c)
		}
	}
	next := s.all[0]
	s.mu.Unlock()
	s.log.Warn("another server is asked from now on", "was", address, "now", next, "why", why)
	for _, c := range end {
		_ = c.Close() // watches begin again at the next
	}
}

// serverConn is a connection that is known by the server it leads to.
type serverConn struct {
	net.Conn
	server string
	of     *servers
}

func (s *servers) track(c net.Conn, server string) net.Conn {
	t := &serverConn{c, server, s}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[t] = struct{}{}
	return t
}

// Close implements net.Conn.
func (c *serverConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// Wrap is the WrapTransport of a rest.Config: a server that says that it cannot
// reach the others is left.
func (s *servers) Wrap(rt http.RoundTripper) http.RoundTripper { return wrapped{rt, s} }

type wrapped struct {
	http.RoundTripper
	servers *servers
}

// RoundTrip implements http.RoundTripper.
func (w wrapped) RoundTrip(r *http.Request) (*http.Response, error) {
	var at string
	trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { at = i.Conn.RemoteAddr().String() }}
	resp, err := w.RoundTripper.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	if err == nil && resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != "" {
		w.servers.refusedBy(at)
	}
	return resp, err
}

// refusedBy leaves a server by its address, but not for all of them in a row:
// when all refuse there is none to go to.
func (s *servers) refusedBy(address string) {
	s.mu.Lock()
	soon := time.Since(s.moved) < stayAtMost
	s.mu.Unlock()
	if !soon {
		s.leave(address, "it cannot serve now")
	}
}

// userTimeout ends a connection whose other side does not say that it has heard.
func userTimeout(_, _ string, c syscall.RawConn) error {
	var err error
	if cerr := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence/time.Millisecond)) //nolint:gosec // a file descriptor
	}); cerr != nil {
		return cerr
	}
	return err
}
