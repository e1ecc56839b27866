package apiserver

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"runtime"
	"slices"
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
	if m := x.r.Method; m != http.MethodGet && m != http.MethodHead {
		notFoundPage(x)
		return
	}
	parts := splitPath(x.r.URL.Path)
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
	default:
		notFoundPage(x)
	}
}

// index lists the paths there are.
func (s *Server) index(x *exchange) {
	paths := []string{"/api", "/api/v1", "/apis", "/healthz", "/livez", "/metrics", "/openapi/v3", "/readyz", "/version"}
	for _, g := range s.discovery.groups {
		if g.name != "" {
			paths = append(paths, "/apis/"+g.name, "/apis/"+g.groupVersion())
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
	q, _ := url.ParseQuery(x.r.URL.RawQuery)
	var report strings.Builder
	failed, found := false, false
	for _, c := range s.checks(probe) {
		if one != "" && c.Name != path.Clean(one) {
			continue
		}
		found = true
		if slices.Contains(q["exclude"], c.Name) {
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
	if one != "" && !found {
		notFoundPage(x)
		return
	}
	x.Header().Set("Content-Type", "text/plain; charset=utf-8")
	x.Header().Set("X-Content-Type-Options", "nosniff")
	switch {
	case failed:
		x.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(x, "%s%s check failed\n", report.String(), probe)
	case q.Has("verbose") && one == "":
		fmt.Fprintf(x, "%s%s check passed\n", report.String(), probe)
	default:
		fmt.Fprint(x, "ok")
	}
}
