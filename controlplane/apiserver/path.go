package apiserver

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kversion "k8s.io/apimachinery/pkg/version"
)

// servePublic serves what everybody may know: health and version. Load
// balancers, systemd and kubectl ask for it without credentials.
func (s *Server) servePublic(x *exchange) bool {
	if x.r.Method != http.MethodGet && x.r.Method != http.MethodHead {
		return false
	}
	p := x.r.URL.Path
	switch {
	case p == "/version" || p == "/version/":
		s.version(x)
	case p == "/healthz" || p == "/livez" || p == "/readyz",
		strings.HasPrefix(p, "/healthz/"), strings.HasPrefix(p, "/livez/"), strings.HasPrefix(p, "/readyz/"):
		s.health(x, p)
	default:
		return s.publicDocument(x)
	}
	return true
}

func (s *Server) publicDocument(x *exchange) bool {
	i := slices.IndexFunc(s.cfg.Documents, func(d Document) bool { return d.Path == x.r.URL.Path })
	if i < 0 {
		return false
	}
	data, err := s.cfg.Documents[i].Read()
	if err != nil {
		s.writeError(x, x.r, apierrors.NewInternalError(err))
		return true
	}
	x.Header().Set("Content-Type", s.cfg.Documents[i].ContentType)
	_, _ = x.Write(data)
	return true
}

// servePath serves paths that are no resources to an authorized user.
func (s *Server) servePath(x *exchange) {
	parts := splitPath(x.r.URL.Path)
	groups := len(parts) == 1 && parts[0] == "apis" // which upstream shows to any method
	if m := x.r.Method; m != http.MethodGet && m != http.MethodHead && !groups {
		notFoundPage(x)
		return
	}
	switch {
	case len(parts) == 0:
		s.index(x)
	case parts[0] == "api" || parts[0] == "apis":
		if !s.discoveryPath(x, parts) {
			notFoundPage(x)
		}
	case parts[0] == "openapi":
		s.openAPI(x, strings.Join(parts[1:], "/"))
	case len(parts) == 1 && parts[0] == "metrics":
		s.metrics.ServeHTTP(x, x.r)
	case len(parts) > 1 && parts[0] == "debug":
		s.profile(x, parts[1:])
	default:
		notFoundPage(x)
	}
}

// index lists the paths there are.
func (s *Server) index(x *exchange) {
	paths := []string{"/api", "/api/v1", "/apis", "/apis/", "/metrics", "/openapi/v2", "/openapi/v3", "/openapi/v3/", "/version"}
	for _, d := range s.cfg.Documents {
		paths = append(paths, d.Path)
	}
	for _, probe := range []string{"healthz", "livez", "readyz"} {
		paths = append(paths, "/"+probe)
		for _, c := range s.checks(probe) {
			paths = append(paths, "/"+probe+"/"+c.Name)
		}
	}
	for _, g := range s.served().discovery.groups {
		if g.name == "" {
			continue
		}
		paths = append(paths, "/apis/"+g.name)
		for _, v := range g.versions {
			paths = append(paths, "/apis/"+v.String())
		}
	}
	slices.Sort(paths)
	writeJSON(x, map[string][]string{"paths": paths})
}

// version answers /version. Clients compare major and minor.
func (s *Server) version(x *exchange) {
	major, minor, _ := strings.Cut(strings.TrimPrefix(s.cfg.Version, "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	writeJSON(x, kversion.Info{
		Major: major, Minor: minor, EmulationMajor: major, EmulationMinor: minor, MinCompatibilityMajor: major, MinCompatibilityMinor: minor,
		GitVersion: s.cfg.Version, GitTreeState: "clean", GoVersion: runtime.Version(), Compiler: runtime.Compiler,
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	})
}

// health answers /healthz, /livez and /readyz: all checks, or the one that the
// path names. ?verbose lists them, ?exclude=<name> leaves one out.
func (s *Server) health(x *exchange, p string) {
	probe, one, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
	checks := s.checks(probe)
	if one != "" {
		s.healthOf(x, checks, one)
		return
	}
	q, _ := url.ParseQuery(x.r.URL.RawQuery)
	var report strings.Builder
	failed := false
	unknown := slices.Clone(q["exclude"])
	for _, c := range checks {
		if slices.Contains(q["exclude"], c.Name) {
			unknown = slices.DeleteFunc(unknown, func(n string) bool { return n == c.Name })
			fmt.Fprintf(&report, "[+]%s excluded: ok\n", c.Name)
			continue
		}
		if err := c.Check(x.r.Context()); err != nil {
			failed = true
			s.cfg.Log.Debug("health check failed", "check", c.Name, "err", err)
			fmt.Fprintf(&report, "[-]%s failed: reason withheld\n", c.Name)
			continue
		}
		fmt.Fprintf(&report, "[+]%s ok\n", c.Name)
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		fmt.Fprintf(&report, "warn: some health checks cannot be excluded: no matches for %s\n", quoted(slices.Compact(unknown)))
	}
	switch {
	case failed:
		plainText(x, http.StatusInternalServerError, report.String()+probe+" check failed\n")
	case q.Has("verbose"):
		plainText(x, http.StatusOK, report.String()+probe+" check passed\n")
	default:
		plainText(x, http.StatusOK, "ok")
	}
}

// healthOf answers with one check.
func (s *Server) healthOf(x *exchange, checks []Check, name string) {
	i := slices.IndexFunc(checks, func(c Check) bool { return c.Name == path.Clean(name) })
	if i < 0 {
		notFoundPage(x)
		return
	}
	if err := checks[i].Check(x.r.Context()); err != nil {
		plainText(x, http.StatusInternalServerError, "internal server error: "+err.Error()+"\n")
		return
	}
	plainText(x, http.StatusOK, "ok")
}

func quoted(names []string) string {
	all := make([]string, len(names))
	for i, n := range names {
		all[i] = strconv.Quote(n)
	}
	return strings.Join(all, ",")
}

func plainText(x *exchange, code int, text string) {
	h := x.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	x.WriteHeader(code)
	_, _ = x.Write([]byte(text))
}
