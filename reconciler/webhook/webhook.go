// Package webhook hears from forges that somebody has pushed.
//
//	POST /hooks/<repository> ──> rate ──> body, bounded ──> signature ──> event, ref ──> Notify
//	                                                            └─ nothing is parsed before it holds
//
// Watches nothing but its requests; owns nothing. It promises that only who
// knows the secret wakes anything, that what a request costs is bounded before
// it is known who sent it, and that no secret and no body is logged or
// answered. A notice says no more than "look": what is applied is what the
// repository then has, so a notice that is lost, late or forged at worst costs
// one poll.
package webhook

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

// Provider is whose format a hook speaks.
type Provider string

// The providers. Forgejo and Gogs sign like Gitea.
const (
	GitHub    Provider = "github"
	GitLab    Provider = "gitlab"
	Gitea     Provider = "gitea"
	Bitbucket Provider = "bitbucket"
	Generic   Provider = "generic"
)

// Hook is what a repository expects of its forge.
type Hook struct {
	Provider Provider
	// Secret that requests are signed with; a hook without one accepts none.
	Secret []byte
	// Refs that matter, in full: refs/heads/main. One that ends in * stands for
	// all that begin so. Empty for all.
	Refs []string
}

// Config is everything the handler needs from outside.
type Config struct {
	// Lookup returns the hook of a repository; false when it has none. It must
	// be quick: it is asked before the signature is verified.
	Lookup func(repository string) (Hook, bool)
	// Notify is told that the repository may have something new. It must not
	// block.
	Notify func(repository string)
	// Rate and Burst bound the requests of one client, and of one repository.
	// Default 5 each second and 20 at once, and four times that.
	Rate  rate.Limit
	Burst int
	Log   *slog.Logger
	Now   func() time.Time // default time.Now
}

const (
	// MaxBody is the longest body that is read, in bytes.
	MaxBody = 3 << 20
	// maxBodies bounds the bodies that are in memory, and bodyTimeout how long
	// one may take to arrive.
	maxBodies   = 32
	bodyTimeout = 10 * time.Second
	// maxAge is how far the clock of a forge that signs the time may be off.
	maxAge = 5 * time.Minute
)

// Handler serves POST <prefix>/hooks/<repository>.
type Handler struct {
	cfg     Config
	clients *limiters
	repos   *limiters
	seen    *deliveries
	bodies  chan struct{} // a token for each body that is read
}

// New returns a handler; it starts nothing.
func New(cfg Config) *Handler {
	if cfg.Rate <= 0 {
		cfg.Rate = 5
	}
	if cfg.Burst <= 0 {
		cfg.Burst = 20
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Handler{cfg: cfg, clients: newLimiters(cfg.Rate, cfg.Burst), repos: newLimiters(4*cfg.Rate, 4*cfg.Burst), seen: newDeliveries(),
		bodies: make(chan struct{}, maxBodies)}
}

// refusal is an answer other than yes.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

func refuse(status int, format string, args ...any) error {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

// ServeHTTP implements http.Handler. It answers 202 when the repository was
// woken, 200 when there was nothing to wake for, 400 for what is no request of
// the forge, 401 for a wrong or missing signature, 403 for a request that is
// too old or a hook without a secret, 404 for a repository without a hook, 413
// for a body over the bound, and 429 for too many requests.
func (h *Handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	name := repositoryOf(req.URL.Path)
	text, status, err := h.hear(w, req, name)
	var no *refusal
	if errors.As(err, &no) {
		text, status = no.text, no.status
	}
	switch {
	case status == http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "1") // and no log line: a flood must not fill the log
	case err != nil:
		h.cfg.Log.InfoContext(req.Context(), "webhook refused", "repository", clip(name), "client", client(req), "status", status, "reason", text)
	default:
		h.cfg.Log.DebugContext(req.Context(), "webhook heard", "repository", name, "client", client(req), "status", status)
	}
	if status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodPost)
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // the client is gone when this fails
}

// hear judges one request and wakes the repository.
func (h *Handler) hear(w http.ResponseWriter, req *http.Request, name string) (text string, status int, err error) {
	now := h.cfg.Now()
	if req.Method != http.MethodPost {
		return "", 0, refuse(http.StatusMethodNotAllowed, "use POST")
	}
	if !h.clients.allow(client(req), now) {
		return "", 0, refuse(http.StatusTooManyRequests, "too many requests from your address: try again in a second")
	}
	hook, ok := h.cfg.Lookup(name)
	switch {
	case name == "" || !ok:
		return "", 0, refuse(http.StatusNotFound, "there is no webhook here: the path is /hooks/REPOSITORY, and the Repository must have spec.webhook")
	case len(hook.Secret) == 0:
		return "", 0, refuse(http.StatusForbidden, "the webhook of this repository has no secret: its Secret is missing, or has no key \"token\"")
	}
	select {
	case h.bodies <- struct{}{}:
		defer func() { <-h.bodies }()
	default:
		return "", 0, refuse(http.StatusTooManyRequests, "too many requests at once: try again in a second")
	}
	body, err := read(w, req)
	if err != nil {
		return "", 0, err
	}
	if err := verify(hook, req.Header, body, now); err != nil {
		return "", 0, err
	}
	// Only requests that are genuine count here: nobody else can use up what
	// the forge may send.
	if !h.repos.allow(name, now) {
		return "", 0, refuse(http.StatusTooManyRequests, "too many requests for this repository: try again in a second")
	}
	e, err := parse(hook.Provider, req.Header, body)
	if err != nil {
		return "", 0, err
	}
	switch {
	case e.delivery != "" && !h.seen.first(name+"\x00"+e.delivery, now):
		return "this delivery was heard before", http.StatusOK, nil
	case e.ping:
		return "the webhook works", http.StatusOK, nil
	case !e.push:
		return "only pushes matter here", http.StatusOK, nil
	case !matters(hook.Refs, e.refs):
		return "the push is to a ref that is not followed", http.StatusOK, nil
	}
	h.cfg.Notify(name)
	return "the repository is read", http.StatusAccepted, nil
}

// read reads the body, as far as the bound allows.
func read(w http.ResponseWriter, req *http.Request) ([]byte, error) {
	if req.ContentLength > MaxBody {
		return nil, refuse(http.StatusRequestEntityTooLarge, "a webhook may have %d MiB", MaxBody>>20)
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)) // a recorder has none
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, MaxBody))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, refuse(http.StatusRequestEntityTooLarge, "a webhook may have %d MiB", MaxBody>>20)
	case err != nil:
		return nil, refuse(http.StatusBadRequest, "the body ends early")
	}
	return body, nil
}

// matters says whether one of the refs is followed. A push that does not say
// which it was to does.
func matters(follow, pushed []string) bool {
	if len(follow) == 0 || len(pushed) == 0 {
		return true
	}
	for _, p := range pushed {
		for _, f := range follow {
			prefix, any := strings.CutSuffix(f, "*")
			if p == f || any && strings.HasPrefix(p, prefix) {
				return true
			}
		}
	}
	return false
}

// repositoryOf is the name in a path that ends in /hooks/<name>.
func repositoryOf(path string) string {
	_, name, _ := strings.Cut(path, "/hooks/")
	if strings.Contains(name, "/") {
		return ""
	}
	return name
}

// client is the address that a request comes from. Headers of proxies are not
// believed: anyone can write them.
func client(req *http.Request) string {
	host, _, err := net.SplitHostPort(req.RemoteAddr)
	if err != nil {
		return req.RemoteAddr
	}
	return host
}

func clip(s string) string { return s[:min(len(s), 100)] }
