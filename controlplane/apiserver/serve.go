package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"
)

// exchange is one request on its way through the server.
type exchange struct {
	*responseWriter
	r     *http.Request
	route route
	user  user.Info
	began time.Time

	// known says that the route names a resource that exists, dryRun that
	// nothing is stored: for the metrics.
	known, dryRun bool
}

// serve authenticates a request and serves it.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) { s.serveAs(w, r, nil) }

// serveAs serves a request as a known user; nil has it authenticated first.
func (s *Server) serveAs(w http.ResponseWriter, r *http.Request, as user.Info) {
	x := &exchange{responseWriter: &responseWriter{ResponseWriter: w, life: s.life}, r: r, user: as, began: time.Now()}
	h := w.Header()
	h.Set("Audit-Id", auditID(r))
	h.Set("Cache-Control", "no-cache, private")
	defer s.finish(x)

	var err error
	if x.route, err = parseRoute(r); err != nil {
		s.writeError(x, r, apierrors.NewBadRequest(err.Error()))
		return
	}
	if s.servePublic(x) {
		return
	}
	if err := s.authenticate(x); err != nil {
		s.writeError(x, x.r, err)
		return
	}
	if m := s.mount(r.URL.Path); m != nil {
		m.ServeHTTP(x, x.r)
		return
	}
	if x.user == nil {
		s.writeError(x, r, apierrors.NewUnauthorized("Unauthorized"))
		return
	}
	s.serveUser(x)
}

// serveUser serves a request whose user is known.
func (s *Server) serveUser(x *exchange) {
	h := x.Header()
	h["X-Kubernetes-Pf-Flowschema-Uid"] = flowSchemaUID
	h["X-Kubernetes-Pf-Prioritylevel-Uid"] = priorityLevelUID
	if err := s.impersonate(x); err != nil {
		s.writeError(x, x.r, err)
		return
	}
	ctx := request.WithUser(x.r.Context(), x.user)
	ctx = warning.WithWarningRecorder(ctx, &warnings{h: h})
	if !x.route.longRunning() {
		release, err := s.limit.acquire(ctx, x.user)
		if err != nil {
			s.met.rejected.Inc()
			s.writeError(x, x.r, err)
			return
		}
		defer release()
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.cfg.RequestTimeout)
		defer cancel()
	}
	x.r = x.r.WithContext(ctx)
	x.known = s.discovery.serves(&x.route)
	defer s.met.track(x)()
	if err := s.authorize(x); err != nil {
		s.writeError(x, x.r, err)
		return
	}
	if x.route.IsResource {
		s.serveResource(x)
		return
	}
	s.servePath(x)
}

// finish counts a request and keeps a panic of a handler from the others.
func (s *Server) finish(x *exchange) {
	if p := recover(); p != nil {
		if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			s.met.observe(x)
			panic(p)
		}
		s.cfg.Log.Error("panic while serving a request", "method", x.r.Method, "path", x.r.URL.Path, "err", p, "stack", string(debug.Stack()))
		s.met.panics.Inc()
		if x.code != 0 {
			s.met.observe(x)
			panic(http.ErrAbortHandler) // half an answer must not look like a whole one
		}
		s.writeError(x, x.r, apierrors.NewInternalError(fmt.Errorf("this request caused apiserver to panic. Look in the logs for details")))
	}
	s.met.observe(x)
}

// authenticate finds out who asks. Only handlers that are mounted see requests
// without a user.
func (s *Server) authenticate(x *exchange) error {
	if x.user == nil && s.cfg.Authenticator != nil {
		u, ok, err := s.cfg.Authenticator.Authenticate(x.r)
		mounted := s.mount(x.r.URL.Path) != nil
		switch {
		case mounted && (err != nil || !ok):
			return nil
		case err != nil:
			s.cfg.Log.Debug("credentials refused", "path", x.r.URL.Path, "remote", x.r.RemoteAddr, "err", err)
			return apierrors.NewUnauthorized("Unauthorized")
		case !ok:
			return apierrors.NewUnauthorized("Unauthorized")
		}
		x.user = u
	}
	if x.user != nil {
		x.r = x.r.WithContext(request.WithUser(x.r.Context(), x.user))
	}
	return nil
}

func (s *Server) mount(path string) http.Handler {
	for _, m := range s.cfg.Mounts {
		if strings.HasPrefix(path, m.Prefix) {
			return m.Handler
		}
	}
	return nil
}

func auditID(r *http.Request) string {
	if id := r.Header.Get("Audit-Id"); id != "" && len(id) <= 64 {
		return id
	}
	return uuid.NewString()
}

// What clients look for before they drop their own throttle.
var (
	flowSchemaUID    = []string{"0f4b7a55-3a0e-4c1c-9a55-0a8b3a9b6f01"}
	priorityLevelUID = []string{"5d0c1c52-6c9b-4d0a-8d35-1f1f0e6c7a02"}
)

// warnings writes each warning once, as a header.
type warnings struct {
	h    http.Header
	seen map[string]bool
	size int
}

// warningsSize bounds the header; long lists are cut off, as upstream does.
const warningsSize = 4 << 10

// AddWarning implements warning.Recorder.
func (w *warnings) AddWarning(agent, text string) {
	if agent == "" {
		agent = "-"
	}
	if w.seen[text] || w.size+len(text) > warningsSize {
		return
	}
	if w.seen == nil {
		w.seen = map[string]bool{}
	}
	w.seen[text] = true
	w.size += len(text)
	w.h.Add("Warning", warningHeader(agent, text))
}

// warningHeader writes 299 (miscellaneous persistent warning) as RFC 7234 has it.
func warningHeader(agent, text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
	return `299 ` + agent + ` "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}
