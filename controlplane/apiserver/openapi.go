package apiserver

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/writ-os/writ/controlplane/apiserver/openapi"
)

// openAPI answers /openapi/v2, /openapi/v3 and the documents below it. A client
// that takes gzip gets the embedded bytes as they are.
func (s *Server) openAPI(x *exchange, path string) {
	path = strings.Trim(path, "/")
	docs := &x.now.openapi
	switch {
	case path == "v2":
		s.openAPIv2(x)
	case path == "v3":
		data, err := docs.index()
		if err != nil {
			s.writeError(x, x.r, apierrors.NewInternalError(err))
			return
		}
		s.sendDocument(x, "application/json", &openapi.Document{Plain: data, Hash: openapi.Hash(data)})
	case strings.HasPrefix(path, "v3/"):
		s.openAPIv3(x, strings.TrimPrefix(path, "v3/"))
	default:
		notFoundPage(x)
	}
}

// openAPIv3 answers with the document of a group and version. The address in
// the index carries the document's hash and may be cached for ever; an old one
// leads to the new.
func (s *Server) openAPIv3(x *exchange, path string) {
	doc, err := x.now.openapi.find(path)
	if err != nil {
		s.writeError(x, x.r, apierrors.NewInternalError(err))
		return
	}
	if doc == nil {
		notFoundPage(x)
		return
	}
	if _, err := negotiate(x.r, func(m media, c conversion) bool { return m == mediaJSON && allowPlain(m, c) }); err != nil {
		x.WriteHeader(http.StatusNotAcceptable)
		return
	}
	h := x.Header()
	if hash := x.r.URL.Query().Get("hash"); hash != "" {
		if hash != doc.Hash {
			http.Redirect(x, x.r, openapi.URL(path, doc.Hash), http.StatusMovedPermanently)
			return
		}
		h.Set("Cache-Control", "public, immutable")
		h.Set("Expires", time.Now().AddDate(1, 0, 0).Format(time.RFC1123))
	}
	s.sendDocument(x, "application/json", doc)
}

// v2Protobuf are the names of the protobuf form of OpenAPI v2; the second is
// what the answer says.
var v2Protobuf = [...]string{
	"application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
	"application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
}

func (s *Server) openAPIv2(x *exchange) {
	accept := strings.Join(x.r.Header["Accept"], ",")
	if accept == "" {
		accept = "*/*"
	}
	for _, c := range parseAccept(accept) {
		pb := c.mime == v2Protobuf[0] || c.mime == v2Protobuf[1]
		if !pb && !c.matches(mediaJSON) {
			continue
		}
		doc, err := x.now.openapi.v2(pb)
		if err != nil {
			s.writeError(x, x.r, apierrors.NewInternalError(err))
			return
		}
		contentType := "application/json"
		if pb {
			contentType = v2Protobuf[1]
		}
		s.sendDocument(x, contentType, doc)
		return
	}
	x.WriteHeader(http.StatusNotAcceptable)
}

// sendDocument answers with a document, or says that the client has it already.
func (s *Server) sendDocument(x *exchange, contentType string, doc *openapi.Document) {
	etag := strconv.Quote(doc.Hash)
	h := x.Header()
	h.Set("Etag", etag)
	h["Vary"] = []string{"Accept-Encoding", "Accept"}
	if x.r.Header.Get("If-None-Match") == etag {
		x.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", contentType)
	data := doc.Plain
	if doc.Gzip != nil && strings.Contains(x.r.Header.Get("Accept-Encoding"), "gzip") {
		data = doc.Gzip
		h.Set("Content-Encoding", "gzip")
	} else if data == nil {
		var err error
		if data, err = doc.JSON(); err != nil {
			s.writeError(x, x.r, err)
			return
		}
	}
	h.Set("Content-Length", strconv.Itoa(len(data)))
	defer x.guardWrite().Stop()
	_, _ = x.Write(data)
}
