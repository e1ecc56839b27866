package apiserver

import (
	"net/http"
	"net/http/pprof" //nolint:gosec // served below /debug/pprof alone, to those who may read that path
	"strings"
)

// profile serves /debug/pprof as upstream does: to those whom the authorizer
// lets get that path, which by default are system:masters alone.
func (s *Server) profile(x *exchange, parts []string) {
	if !s.cfg.Profiling || parts[0] != "pprof" {
		notFoundPage(x)
		return
	}
	switch strings.Join(parts[1:], "/") {
	case "cmdline":
		pprof.Cmdline(x, x.r)
	case "profile":
		pprof.Profile(x, x.r)
	case "symbol":
		pprof.Symbol(x, x.r)
	case "trace":
		pprof.Trace(x, x.r)
	case "":
		if !strings.HasSuffix(x.r.URL.Path, "/") { // its links are relative
			x.Header().Set("Location", "/debug/pprof/")
			x.WriteHeader(http.StatusMovedPermanently)
			return
		}
		fallthrough
	default:
		pprof.Index(x, x.r)
	}
}
