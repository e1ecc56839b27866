package page

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/health"
	"github.com/writ-os/writ/schema"
)

// Prefix is the path below which the page is served.
const Prefix = "/ui/"

// Config is everything the page needs from outside.
type Config struct {
	// Cache is read; for custom resources too.
	Cache client.Cache
	// Catalog names the kinds there are. nil: the table alone.
	Catalog *schema.Live
	// Authorize says whether the user may do a verb ("get", "list") on objects
	// of a resource. A list of all namespaces has the namespace "". nil refuses
	// everything.
	Authorize func(ctx context.Context, u user.Info, verb string, r *schema.Resource, namespace, name string) bool
	// Health of an object. Default: health.Of.
	Health func(schema.Object) health.Health
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Version is shown in the corner.
	Version string
	// Log may be nil.
	Log *slog.Logger
}

// Page is the handler of everything below Prefix.
type Page struct {
	cfg Config
	hub *hub
	// renders bounds how many pages are made at once, and so their memory.
	renders chan struct{}
}

// look is what all pages are made of.
type look struct {
	assets *assets
	views  *views
}

// looks reads it when the first page is asked for: a server has other things to
// do while it starts.
var looks = sync.OnceValue(func() look {
	a := newAssets()
	return look{a, newViews(a)}
})

// maxRenders is how many pages are made at once; others wait.
const maxRenders = 8

// New returns a page; it starts nothing. It serves without Run, but then no
// page learns of changes.
func New(cfg Config) *Page {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Health == nil {
		cfg.Health = health.Of
	}
	if cfg.Authorize == nil {
		cfg.Authorize = func(context.Context, user.Info, string, *schema.Resource, string, string) bool { return false }
	}
	return &Page{cfg: cfg, hub: newHub(cfg), renders: make(chan struct{}, maxRenders)}
}

// Run tells open pages of changes until ctx ends; streams end with it.
func (p *Page) Run(ctx context.Context) error { return p.hub.run(ctx) }

// policy is the content security policy: nothing from elsewhere, nothing in
// line.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// ServeHTTP serves /ui/... The context of a request carries the user
// (k8s.io/apiserver/pkg/endpoints/request); without one only the style sheet,
// the script and a word on how to sign in are served.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "this page only reads: the commit is the only write", http.StatusMethodNotAllowed)
		return
	}
	path, ok := strings.CutPrefix(r.URL.EscapedPath(), Prefix)
	if !ok {
		http.Redirect(w, r, Prefix, http.StatusMovedPermanently)
		return
	}
	if name, ok := strings.CutPrefix(path, "static/"); ok {
		looks().assets.serve(w, r, name)
		return
	}
	u, ok := userOf(r)
	if !ok {
		h.Set("WWW-Authenticate", `Basic realm="Writ", charset="UTF-8"`)
		p.answer(w, r, http.StatusUnauthorized, "message", signIn())
		return
	}
	v := newViewer(r.Context(), u, p.cfg.Authorize)
	if path == "live" {
		p.hub.serve(w, r, v)
		return
	}
	p.render(w, r, v, path)
}

// render makes a page when there is room for it.
func (p *Page) render(w http.ResponseWriter, r *http.Request, v *viewer, path string) {
	select {
	case p.renders <- struct{}{}:
		defer func() { <-p.renders }()
	case <-r.Context().Done():
		return
	}
	world := newWorld(p.cfg, v)
	name, content, found := p.route(world, path, r.URL.Query())
	if !found {
		p.answer(w, r, http.StatusNotFound, "message", notFound(v.name))
		return
	}
	content.Viewer, content.Version = v.name, p.cfg.Version
	p.answer(w, r, http.StatusOK, name, content)
}

// userOf is the user of a request; an anonymous one is none.
func userOf(r *http.Request) (user.Info, bool) {
	u, ok := request.UserFrom(r.Context())
	if !ok || u == nil || u.GetName() == user.Anonymous {
		return nil, false
	}
	for _, g := range u.GetGroups() {
		if g == user.AllUnauthenticated {
			return nil, false
		}
	}
	return u, true
}

// route reads and decides. It says which template shows the content.
func (p *Page) route(w *world, path string, q url.Values) (string, content, bool) {
	parts := strings.Split(path, "/")
	for i := range parts {
		s, err := url.PathUnescape(parts[i])
		if err != nil {
			return "", content{}, false
		}
		parts[i] = s
	}
	switch {
	case path == "":
		return "overview", overviewPage(w), true
	case path == "commits":
		return "commits", commitsPage(w, q), true
	case parts[0] == "commits" && len(parts) == 2:
		c, ok := commitPage(w, parts[1])
		return "commit", c, ok
	case path == "objects":
		return "objects", objectsPage(w, q), true
	case parts[0] == "objects" && len(parts) == 5:
		c, ok := objectPage(w, parts[1], parts[2], parts[3], parts[4], q)
		return "object", c, ok
	case path == "nodes":
		return "nodes", nodesPage(w), true
	case parts[0] == "nodes" && len(parts) == 2:
		c, ok := nodePage(w, parts[1])
		return "node", c, ok
	case path == "repositories":
		return "repositories", repositoriesPage(w), true
	case parts[0] == "repositories" && len(parts) == 2:
		c, ok := repositoryPage(w, parts[1], q)
		return "repository", c, ok
	}
	return "", content{}, false
}
