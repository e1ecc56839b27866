package apiserver

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/writ-os/writ/controlplane/apiserver/openapi"
)

// openAPI answers /openapi/v3 and the documents below it. A client that takes
// gzip gets the embedded bytes as they are.
func (s *Server) openAPI(x *exchange, path string) {
	path = strings.Trim(path, "/")
	if path == "v3" {
		data := openapi.Index()
		x.Header().Set("Content-Type", "application/json")
		x.Header().Set("Content-Length", strconv.Itoa(len(data)))
		_, _ = x.Write(data)
		return
	}
	path, ok := strings.CutPrefix(path, "v3/")
	doc := openapi.Lookup(path)
	if !ok || doc == nil {
		notFoundPage(x)
		return
	}
	if _, err := negotiate(x.r, func(m media, c conversion) bool { return m == mediaJSON && allowPlain(m, c) }); err != nil {
		s.writeError(x, x.r, errNotAcceptable([]string{"application/json"}))
		return
	}
	etag := `"` + doc.Hash + `"`
	h := x.Header()
	h.Set("Etag", etag)
	h.Set("Vary", "Accept, Accept-Encoding")
	if x.r.URL.Query().Get("hash") == doc.Hash {
		h.Set("Cache-Control", "public, immutable")
	}
	if x.r.Header.Get("If-None-Match") == etag {
		x.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", "application/json")
	data := doc.Gzip
	if strings.Contains(x.r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
	} else {
		var err error
		if data, err = doc.JSON(); err != nil {
			s.writeError(x, x.r, err)
			return
		}
	}
	h.Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = x.Write(data)
}
