//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/writ-os/writ/reconciler/forge"
	"github.com/writ-os/writ/reconciler/notify"
)

// within runs f on a thread of its own that is in the cluster's namespace:
// the sockets that f opens are there, whoever uses them.
func (c *cluster) within(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		ns, err := os.Open("/run/netns/" + c.netns)
		if err != nil {
			done <- err
			return
		}
		defer ns.Close()
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("enter namespace %s: %w", c.netns, err)
			return
		}
		done <- f()
	}()
	return <-done
}

// roots is the cluster's CA.
func (c *cluster) roots() *x509.CertPool {
	c.t.Helper()
	ca, err := os.ReadFile(filepath.Join(c.data, "pki", "ca.crt"))
	if err != nil {
		c.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return pool
}

// httpClient calls the cluster from within its namespace and trusts its CA.
func (c *cluster) httpClient() *http.Client {
	c.t.Helper()
	t := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: c.roots()}, DialContext: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = c.within(func() error {
			conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}}
	c.t.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t, Timeout: 10 * time.Second}
}

// hub is all that a cluster meets outside of itself, behind one address with a
// certificate of its own CA: stock git's HTTP server below /plain/, a forge,
// and a receiver of webhooks at /told.
type hub struct {
	*forge.Forge
	url, ca string // ca is a file
	plain   string // directory of the repositories of git's server
	away    atomic.Bool
	calls   http.RoundTripper // by which the forge calls webhooks

	mu       sync.Mutex
	password string // of git's server
	told     []notify.Event
	chat     []string // bodies that the chat was sent
	bad      []string // what is wrong with what was told
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The words that the hub knows.
const (
	hubUser, hubPassword = "reader", "hub-pass-31f"
	forgeToken           = "forge-token-8a2"
	toldToken            = "told-token-77c"
)

func (c *cluster) newHub(repositories ...string) *hub {
	c.t.Helper()
	h := &hub{password: hubPassword, plain: filepath.Join(c.dir, "plain"), ca: filepath.Join(c.dir, "hub.crt")}
	h.Forge = forge.New(forge.Config{Dir: filepath.Join(c.dir, "forge"), Repositories: repositories, Tokens: map[string]string{forgeToken: "ann"},
		Client: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) { return h.calls.RoundTrip(r) })}})
	if err := h.Open(); err != nil {
		c.t.Fatal(err)
	}
	where, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		c.t.Fatal(err)
	}
	backend := &cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(where)), "git-http-backend"), Root: "/plain",
		Env: []string{"GIT_PROJECT_ROOT=" + h.plain, "GIT_HTTP_EXPORT_ALL=1"}, Stderr: io.Discard}
	mux := http.NewServeMux()
	mux.HandleFunc("/plain/", func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		password := h.password
		h.mu.Unlock()
		if name, pass, _ := r.BasicAuth(); name != hubUser || pass != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="hub"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	})
	mux.HandleFunc("/told", h.receive)
	mux.HandleFunc("/slack", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		h.mu.Lock()
		defer h.mu.Unlock()
		h.chat = append(h.chat, string(body))
		_, _ = io.WriteString(w, "ok")
	})
	mux.Handle("/", h.Forge)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.away.Load() {
			http.Error(w, "the hub is away", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	s.Listener.Close()
	if err := c.within(func() (err error) { s.Listener, err = net.Listen("tcp", "127.0.0.1:0"); return err }); err != nil {
		c.t.Fatal(err)
	}
	s.Config.ErrorLog = nil
	s.StartTLS()
	c.t.Cleanup(s.Close)
	h.url = s.URL
	c.write(h.ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	c.write(filepath.Join(c.dir, ".gitconfig"), fmt.Sprintf("[init]\n\tdefaultBranch = main\n[http %q]\n\tsslCAInfo = %s\n", h.url, h.ca))
	return h
}

// receive notes what the cluster tells.
func (h *hub) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var e notify.Event
	if err == nil {
		err = json.Unmarshal(body, &e)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err != nil:
		h.bad = append(h.bad, err.Error())
	case r.Header.Get(notify.SignatureHeader) != notify.Sign(toldToken, body):
		h.bad = append(h.bad, "a wrong signature")
	case r.Header.Get(notify.DeliveryHeader) != e.ID || r.Header.Get(notify.EventHeader) != e.Event:
		h.bad = append(h.bad, "headers that do not fit the body")
	}
	h.told = append(h.told, e)
	w.WriteHeader(http.StatusNoContent)
}

// heard are the events of a commit, in the order in which they were told.
func (h *hub) heard(sha string) (names []string, last notify.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.told {
		if e.SHA == sha {
			names, last = append(names, e.Event), e
		}
	}
	return names, last
}

// states are the statuses of a commit at the forge.
func (h *hub) states(repository, sha string) []string {
	var out []string
	for _, s := range h.Statuses(repository, sha) {
		out = append(out, s.State)
	}
	return slices.Compact(out)
}

// bare makes a repository at git's HTTP server, and a clone of it.
func (c *cluster) bare(h *hub, name string) string {
	c.t.Helper()
	origin, dir := filepath.Join(h.plain, name+".git"), filepath.Join(c.dir, "clone-"+name)
	c.must("git", "init", "-q", "--bare", origin)
	c.must("git", "clone", "-q", origin, dir)
	return dir
}

// forged clones a repository of the forge, with the right to push.
func (c *cluster) forged(h *hub, name string) string {
	c.t.Helper()
	dir := filepath.Join(c.dir, "clone-"+filepath.Base(name))
	c.must("git", "clone", "-q", strings.Replace(h.url, "://", "://ann:"+forgeToken+"@", 1)+"/"+name+".git", dir)
	return dir
}
