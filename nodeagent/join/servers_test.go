package join

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// one is a server that says its name, or that it cannot serve.
func one(t *testing.T, name string) (s *httptest.Server, away *atomic.Bool) {
	t.Helper()
	away = &atomic.Bool{}
	s = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if away.Load() {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, name) // the client asks for it
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, away
}

// TestServers: a node goes to another server when one is gone, or says that it
// cannot serve, and finds it after a restart.
func TestServers(t *testing.T) {
	a, aAway := one(t, "a")
	b, _ := one(t, "b")
	file := filepath.Join(t.TempDir(), serversFile)
	begin := func() (*servers, func() string) {
		s := newServers(file, a.URL, os.WriteFile, slog.New(slog.DiscardHandler))
		tr := &http.Transport{DialContext: s.Dial, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // the way alone is tested
		t.Cleanup(tr.CloseIdleConnections)
		return s, func() string {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := s.Wrap(tr).RoundTrip(req)
			if err != nil {
				return err.Error()
			}
			defer resp.Body.Close() //nolint:errcheck // it was only read
			text, _ := io.ReadAll(resp.Body)
			return string(text)
		}
	}
	s, ask := begin()
	if got := ask(); got != "a" {
		t.Fatalf("the one that it joined by: %s", got)
	}
	addr := func(s *httptest.Server) string { return strings.TrimPrefix(s.URL, "https://") }
	s.Learn([]string{addr(b), addr(a)})
	if got := ask(); got != "a" {
		t.Errorf("the one in use is left for being told of others: %s", got)
	}
	aAway.Store(true)
	ask()
	if got := ask(); got != "b" {
		t.Errorf("after a refusal: %s", got)
	}
	a.Close()
	_, again := begin()
	if got := again(); got != "b" {
		t.Errorf("after a restart, the first being gone: %s", got)
	}
	s.Learn([]string{addr(b)})
	if got, err := os.ReadFile(file); err != nil || string(got) != addr(b)+"\n" {
		t.Errorf("remembered: %q, %v", got, err)
	}
	s.Learn(nil)
	if got := s.snapshot(); !slices.Equal(got, []string{addr(b)}) {
		t.Errorf("nothing is no news: %v", got)
	}
}

// TestNoServer: all are asked once, and the last refusal is said.
func TestNoServer(t *testing.T) {
	s := newServers("", "https://192.0.2.1:1", nil, slog.New(slog.DiscardHandler))
	s.Learn([]string{"192.0.2.2:1", "no address"})
	asked := 0
	s.dial = func(context.Context, string, string) (net.Conn, error) { asked++; return nil, net.ErrClosed }
	if _, err := s.Dial(t.Context(), "tcp", "x:1"); err == nil || asked != 1 {
		t.Errorf("%d asked, %v", asked, err)
	}
}
