// Package forge is a forge for tests, in this process: repositories over real
// smart HTTP, signed webhooks and the commit status API of GitHub, GitLab,
// Gitea and Bitbucket, with failures on demand.
//
//	git push ──> /<owner>/<repository>.git ──> webhooks, signed as the provider does
//	reconciler ──> status API ──> Statuses
//
// Watches nothing; owns Config.Dir. It promises the formats, the answers and
// the bounds of the real ones as far as a client sees them, and none of their
// durability: it is no server for people.
package forge

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/writ-os/writ/reconciler/receive"
	"github.com/writ-os/writ/reconciler/webhook"
)

// Config is everything the forge needs from outside.
type Config struct {
	// Dir keeps the repositories.
	Dir string
	// Repositories are owner/name.
	Repositories []string
	// Tokens are passwords and the users that they belong to. A token signs in
	// as Basic with any user name, Bearer, token, or PRIVATE-TOKEN.
	Tokens map[string]string
	// Hooks are called after each push.
	Hooks []Hook
	// Client sends webhooks. Default http.DefaultClient.
	Client *http.Client
	Log    *slog.Logger
}

// Hook is a webhook of a repository.
type Hook struct {
	Repository string // owner/name
	URL        string
	Provider   webhook.Provider
	Secret     string
	// Sign lets GitLab sign rather than send the secret.
	Sign bool
}

// Failure is an answer that the status API gives in place of its own.
type Failure struct {
	Status int
	Header http.Header
	Body   string
	// Hang lets the request wait until its client gives up.
	Hang bool
}

// Forge serves the repositories and the API.
type Forge struct {
	cfg    Config
	remote *receive.Remote

	mu         sync.Mutex
	statuses   []Status
	failures   []Failure
	deliveries []Delivery
	sent       sync.WaitGroup
}

// New returns a forge; it touches no file before Open.
func New(cfg Config) *Forge {
	if cfg.Client == nil {
		cfg.Client = http.DefaultClient
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	f := &Forge{cfg: cfg}
	var names []string
	for _, r := range cfg.Repositories {
		names = append(names, flat(r))
	}
	f.remote = receive.New(receive.Config{Dir: cfg.Dir, Names: names, AllowForce: true, Log: cfg.Log,
		Pushed: func(name, ref, sha string) { f.pushed(name, ref, sha) }})
	return f
}

// flat makes one folder of owner/name.
func flat(repository string) string { return strings.ReplaceAll(repository, "/", "__") }

// Open makes the repositories.
func (f *Forge) Open() error { return f.remote.Open() }

// Dir is the bare repository of owner/name.
func (f *Forge) Dir(repository string) string { return f.remote.RepoDir(flat(repository)) }

// Hook adds a webhook.
func (f *Forge) Hook(h Hook) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cfg.Hooks = append(f.cfg.Hooks, h)
}

// Fail lets the next requests to the status API fail so, one for each.
func (f *Forge) Fail(next ...Failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failures = append(f.failures, next...)
}

// RateLimit is the answer of a provider to too many requests.
func RateLimit(p webhook.Provider, wait time.Duration, now time.Time) Failure {
	seconds := fmt.Sprint(int(wait.Seconds()))
	switch p {
	case webhook.GitHub:
		return Failure{Status: http.StatusForbidden, Body: `{"message":"API rate limit exceeded","documentation_url":"https://docs.github.com/rest/overview/rate-limits-for-the-rest-api"}`,
			Header: http.Header{"X-Ratelimit-Limit": {"5000"}, "X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {fmt.Sprint(now.Add(wait).Unix())}}}
	case webhook.GitLab:
		return Failure{Status: http.StatusTooManyRequests, Body: "Retry later\n", Header: http.Header{"Retry-After": {seconds}, "Ratelimit-Remaining": {"0"}}}
	}
	return Failure{Status: http.StatusTooManyRequests, Body: `{"message":"too many requests"}`, Header: http.Header{"Retry-After": {seconds}}}
}

// ServeHTTP implements http.Handler.
func (f *Forge) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	who, known := f.userOf(req)
	if strings.HasPrefix(req.URL.Path, "/api/v4/") || strings.HasPrefix(req.URL.Path, "/api/v1/") || strings.HasPrefix(req.URL.Path, "/repos/") {
		f.api(w, req, who)
		return
	}
	if known {
		u := &user.DefaultInfo{Name: who, Groups: []string{"writ:pushers"}}
		req = req.WithContext(request.WithUser(req.Context(), u))
	}
	owner, rest, ok := strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/")
	if !ok {
		http.NotFound(w, req)
		return
	}
	inner := req.Clone(req.Context())
	inner.URL.Path = "/git/" + owner + "__" + rest
	f.remote.ServeHTTP(w, inner)
}

// userOf is the user of the token that a request has.
func (f *Forge) userOf(req *http.Request) (string, bool) {
	token := req.Header.Get("Private-Token")
	if _, pass, ok := req.BasicAuth(); ok {
		token = pass
	} else if kind, t, ok := strings.Cut(req.Header.Get("Authorization"), " "); ok && (strings.EqualFold(kind, "bearer") || strings.EqualFold(kind, "token")) {
		token = t
	}
	who, ok := f.cfg.Tokens[token]
	return who, ok && token != ""
}

// Delivery is one webhook that was sent.
type Delivery struct {
	Hook   Hook
	Header http.Header
	Body   []byte
	Status int // of the answer; 0 when there was none
	Answer string
}

// Deliveries are the webhooks that were sent, once those under way are done.
func (f *Forge) Deliveries() []Delivery {
	f.sent.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Delivery(nil), f.deliveries...)
}

// pushed sends the webhooks of a repository, beside the answer to the push.
func (f *Forge) pushed(name, ref, sha string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range f.cfg.Hooks {
		if flat(h.Repository) == name {
			f.sent.Go(func() { f.deliver(h, ref, sha) })
		}
	}
}

// deliverTimeout is how long a forge waits for an answer.
const deliverTimeout = 10 * time.Second

func (f *Forge) deliver(h Hook, ref, sha string) {
	header, body := Payload(h, ref, sha, time.Now())
	d := Send(f.cfg.Client, h, header, body)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deliveries = append(f.deliveries, d)
}

// Send sends one webhook.
func Send(c *http.Client, h Hook, header http.Header, body []byte) Delivery {
	d := Delivery{Hook: h, Header: header, Body: body}
	ctx, cancel := context.WithTimeout(context.Background(), deliverTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(body))
	if err != nil {
		d.Answer = err.Error()
		return d
	}
	req.Header = header
	res, err := c.Do(req)
	if err != nil {
		d.Answer = err.Error()
		return d
	}
	defer res.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	d.Status, d.Answer = res.StatusCode, string(answer)
	return d
}
