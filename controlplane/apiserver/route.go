package apiserver

import (
	"errors"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/fields"
)

// route is what a request asks for, as its method, path and query say it. The
// rules are upstream's RequestInfo; a fuzz test holds the two side by side.
type route struct {
	Verb       string // get, list, watch, create, ...; the lower-case method where Resource is empty
	Path       string
	IsResource bool

	Group, Version string
	Namespace      string
	Plural         string
	Name           string
	Subresource    string
	// Rest is what follows the subresource: the path of a proxied request.
	Rest string
	// PathVerb says that the verb stands in the path: /api/v1/watch/pods.
	PathVerb bool
}

var errNoKind = errors.New("unable to determine kind and namespace from url")

// parseRoute reads a request. It fails for /api/v1/watch alone.
func parseRoute(r *http.Request) (route, error) {
	rt := route{Verb: strings.ToLower(r.Method), Path: r.URL.Path}
	parts := splitPath(r.URL.Path)
	if len(parts) < 3 {
		return rt, nil
	}
	switch parts[0] {
	case "api":
		parts = parts[1:]
	case "apis":
		if len(parts) < 4 {
			return rt, nil
		}
		rt.Group, parts = parts[1], parts[2:]
	default:
		return rt, nil
	}
	rt.IsResource = true
	rt.Version, parts = parts[0], parts[1:]
	rt.Verb = methodVerb(r.Method)
	if parts[0] == "watch" || parts[0] == "proxy" {
		if len(parts) < 2 {
			rt.Verb = strings.ToLower(r.Method)
			return rt, errNoKind
		}
		rt.Verb, parts, rt.PathVerb = parts[0], parts[1:], true
	}
	rt.setObject(parts)
	rt.refineVerb(r)
	return rt, nil
}

// setObject reads [namespaces/<ns>/]<plural>[/<name>[/<subresource>[/rest]]].
func (rt *route) setObject(parts []string) {
	if parts[0] == "namespaces" && len(parts) > 1 {
		rt.Namespace = parts[1]
		if len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
			parts = parts[2:]
		}
	}
	rt.Plural = parts[0]
	if len(parts) > 1 {
		rt.Name = parts[1]
	}
	if len(parts) > 2 && rt.Verb != "proxy" {
		rt.Subresource = parts[2]
		rt.Rest = strings.Join(parts[3:], "/")
	}
}

// refineVerb tells get from list and watch, delete from deletecollection.
func (rt *route) refineVerb(r *http.Request) {
	if rt.Name != "" {
		return
	}
	switch rt.Verb {
	case "get":
		rt.Verb = "list"
		if r.URL.RawQuery == "" {
			return
		}
		q := r.URL.Query()
		if isTrue(q["watch"]) {
			rt.Verb = "watch"
		}
		rt.Name = nameFromSelector(q.Get("fieldSelector"))
	case "delete":
		rt.Verb = "deletecollection"
	}
}

// nameFromSelector returns the name that a field selector pins, so that rules
// for single objects (resourceNames) hold for a list of one.
func nameFromSelector(selector string) string {
	if !strings.Contains(selector, "metadata.name") {
		return ""
	}
	sel, err := fields.ParseSelector(selector)
	if err != nil {
		return ""
	}
	name, ok := sel.RequiresExactMatch("metadata.name")
	if !ok || len(content.IsPathSegmentName(name)) > 0 {
		return ""
	}
	return name
}

func methodVerb(method string) string {
	switch method {
	case http.MethodPost:
		return "create"
	case http.MethodGet, http.MethodHead:
		return "get"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	}
	return ""
}

// isTrue reads a boolean query parameter as upstream does: present and neither
// "false" nor "0" is true.
func isTrue(values []string) bool {
	if len(values) == 0 {
		return false
	}
	switch strings.ToLower(values[0]) {
	case "false", "0":
		return false
	}
	return true
}

func splitPath(path string) []string {
	path = strings.Trim(path, "/")
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}

// readOnly says whether the request changes nothing.
func (rt *route) readOnly() bool {
	switch rt.Verb {
	case "get", "list", "watch", "head", "options", "trace":
		return true
	}
	return false
}

// longRunning says whether the request may go on for hours: it is exempt from
// timeouts and from the limit on requests in flight.
func (rt *route) longRunning() bool {
	if rt.Verb == "watch" || rt.Verb == "proxy" {
		return true
	}
	switch rt.Subresource {
	case "log", "exec", "attach", "portforward", "proxy":
		return rt.IsResource
	}
	return false
}
