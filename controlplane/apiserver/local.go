package apiserver

import (
	"net/http"

	kschema "k8s.io/apimachinery/pkg/runtime/schema"
)

// LocalHandler serves the API to everybody as system:masters: what the unix
// socket has, for a port that only this machine reaches.
func (s *Server) LocalHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serveAs(w, r, masters) })
}

// OpenAPIV3 returns the OpenAPI v3 document of a group and version as JSON; nil
// when there is none. Groups of other servers have none here.
func (s *Server) OpenAPIV3(gv kschema.GroupVersion) ([]byte, error) {
	path := "apis/" + gv.String()
	if gv.Group == "" {
		path = "api/" + gv.Version
	}
	doc, err := s.served().openapi.find(path)
	if doc == nil || err != nil {
		return nil, err
	}
	return doc.JSON()
}
