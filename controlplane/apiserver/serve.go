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
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
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
	// bodyWithin is how long the client may take to send its body.
	bodyWithin time.Duration

	// known says that the route names a resource that exists, dryRun that
	// nothing is stored: for the metrics.
	known, dryRun bool
	// now is what was served when the request came.
	now *served
}

// serve authenticates a request and serves it.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) { s.serveAs(w, r, nil) }

// serveAs serves a request as a known user; nil has it authenticated first.
func (s *Server) serveAs(w http.ResponseWriter, r *http.Request, as user.Info) {
	x := &exchange{
		responseWriter: &responseWriter{ResponseWriter: w, life: s.life, writeWithin: s.cfg.WriteWithin},
		r:              r, user: as, began: time.Now(), bodyWithin: s.cfg.BodyWithin,
	}
	h := w.Header()
	h.Set("Audit-Id", auditID(r))
	h.Set("Cache-Control", "no-cache, private")
	defer s.finish(x)

	var err error
	if err = sameSite(r); err != nil {
		s.writeError(x, r, err)
		return
	}
	if x.route, err = parseRoute(r); err != nil {
		s.writeError(x, r, apierrors.NewBadRequest(err.Error()))
		return
	}
	if s.servePublic(x) {
		return
	}
	if err := s.authenticate(x); err != nil {
		s.refuse(x, err)
		return
	}
	if m := s.mount(r.URL.Path); m != nil {
		if m.Audited {
			if err := s.record(x); err != nil {
				s.writeError(x, x.r, apierrors.NewInternalError(err))
				return
			}
		}
		m.Handler.ServeHTTP(x, x.r)
		return
	}
	if x.user == nil {
		s.refuse(x, apierrors.NewUnauthorized("Unauthorized"))
		return
	}
	s.serveUser(x)
}

// record begins the audit of a request to a mount. Its handler may say more by
// annotations (k8s.io/apiserver/pkg/audit). Credentials that nobody knows are
// recorded too, none at all are not: clients ask without them first.
func (s *Server) record(x *exchange) (err error) {
	switch {
	case s.cfg.Audit == nil:
	case x.user != nil:
		x.r, x.event, err = s.cfg.Audit.Begin(x.r, x.Header().Get("Audit-Id"), x.began, x.attributes(), false)
	case x.r.Header.Get("Authorization") != "":
		s.recordRefused(x)
	}
	return err
}

func (s *Server) recordRefused(x *exchange) {
	if s.cfg.Audit == nil {
		return
	}
	if err := s.cfg.Audit.Refused(x.r, x.Header().Get("Audit-Id"), x.began, x.attributes(), http.StatusUnauthorized); err != nil {
		s.cfg.Log.Warn("a refused request is missing in the audit log", "path", x.r.URL.Path, "err", err)
	}
}

// refuse answers a request whose user is not known.
func (s *Server) refuse(x *exchange, err error) {
	s.recordRefused(x)
	s.writeError(x, x.r, err)
}

// serveUser serves a request whose user is known.
func (s *Server) serveUser(x *exchange) {
	a := x.attributes()
	if s.cfg.Audit != nil {
		var err error
		x.r, x.event, err = s.cfg.Audit.Begin(x.r, x.Header().Get("Audit-Id"), x.began, a, x.route.longRunning())
		if err != nil {
			s.writeError(x, x.r, apierrors.NewInternalError(err))
			return
		}
	}
	if err := s.impersonate(x); err != nil {
		s.writeError(x, x.r, err)
		return
	}
	a.User = x.user
	ctx := request.WithUser(x.r.Context(), x.user)
	ctx = warning.WithWarningRecorder(ctx, &warnings{h: x.Header()})
	if !x.route.longRunning() {
		limit, err := s.timeLimit(x.r)
		if err != nil {
			s.writeError(x, x.r, err)
			return
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
		seat, err := s.cfg.Limit.Acquire(ctx, a)
		x.Header()["X-Kubernetes-Pf-Flowschema-Uid"] = []string{string(seat.FlowSchemaUID)}
		x.Header()["X-Kubernetes-Pf-Prioritylevel-Uid"] = []string{string(seat.PriorityLevelUID)}
		if err != nil {
			s.writeError(x, x.r, err)
			return
		}
		defer seat.Release()
	}
	x.r = x.r.WithContext(ctx)
	x.now = s.served()
	x.known = x.now.discovery.serves(&x.route)
	defer s.met.track(x)()
	if err := s.allowed(x, a); err != nil {
		s.writeError(x, x.r, err)
		return
	}
	switch {
	case s.serveOther(x):
	case x.route.IsResource:
		s.serveResource(x)
	default:
		s.servePath(x)
	}
}

// serveOther passes on what another server has.
func (s *Server) serveOther(x *exchange) bool {
	if s.cfg.Aggregate == nil {
		return false
	}
	gv := kschema.GroupVersion{Group: x.route.Group, Version: x.route.Version}
	if !x.route.IsResource {
		parts := splitPath(strings.TrimPrefix(x.r.URL.Path, "/openapi/v3"))
		if len(parts) != 3 || parts[0] != "apis" {
			return false
		}
		gv = kschema.GroupVersion{Group: parts[1], Version: parts[2]}
	}
	if !s.cfg.Aggregate.Owns(gv) {
		return false
	}
	s.cfg.Aggregate.Serve(x, x.r, gv)
	return true
}

// timeLimit is how long a request may take: what it asks for, up to what the
// server allows.
func (s *Server) timeLimit(r *http.Request) (time.Duration, error) {
	limit := s.cfg.RequestTimeout
	if !strings.Contains(r.URL.RawQuery, "timeout=") {
		return limit, nil
	}
	v := r.URL.Query().Get("timeout")
	if v == "" {
		return limit, nil
	}
	d, err := time.ParseDuration(v)
	switch {
	case err != nil:
		return 0, apierrors.NewBadRequest(fmt.Sprintf("invalid timeout specified in the request URL - %v", err))
	case d > 0:
		limit = min(limit, d)
	}
	return limit, nil
}

// finish counts a request and keeps a panic of a handler from the others.
func (s *Server) finish(x *exchange) {
	defer func() { x.event.End(nil) }()
	if p := recover(); p != nil {
		x.event.End(p) // before the answer, which is not the handler's
		x.event = nil
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

func (s *Server) mount(path string) *Mount {
	for i := range s.cfg.Mounts {
		if m := &s.cfg.Mounts[i]; strings.HasPrefix(path, m.Prefix) {
			return m
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
