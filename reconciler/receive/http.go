package receive

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// Services of the protocol.
const (
	uploadPack  = "git-upload-pack"  // clone and fetch
	receivePack = "git-receive-pack" // push
)

// pushers are the groups that may push.
var pushers = []string{"writ:pushers", user.SystemPrivilegedGroup}

// viewers is the group that may fetch where nobody else says who may.
const viewers = "writ:viewers"

// ServeHTTP serves /git/<name>.git/... The context of a request carries the
// user (k8s.io/apiserver/pkg/endpoints/request).
func (r *Remote) ServeHTTP(w http.ResponseWriter, req *http.Request) { r.serve(w, req, false) }

// Replica serves the other servers of the cluster, which may fetch every object
// that is here, whether or not a ref leads to it. Its caller sees to it that
// nobody else asks.
func (r *Remote) Replica() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { r.serve(w, req, true) })
}

func (r *Remote) serve(w http.ResponseWriter, req *http.Request, replica bool) {
	w.Header().Set("Cache-Control", "no-cache, max-age=0, must-revalidate")
	name, action, ok := strings.Cut(strings.TrimPrefix(req.URL.Path, "/git/"), ".git/")
	repo := r.repos[name]
	service, method := action, http.MethodPost
	if action == "info/refs" {
		service, method = req.URL.Query().Get("service"), http.MethodGet
	}
	u, known := userOf(req)
	switch {
	case !known:
		w.Header().Set("WWW-Authenticate", `Basic realm="Writ"`)
		http.Error(w, "sign in with a client certificate, or with a token as the password (any user name)", http.StatusUnauthorized)
	case !ok || repo == nil:
		http.Error(w, fmt.Sprintf("there is no repository %q here; this cluster serves: %s",
			strings.TrimSuffix(name, ".git"), strings.Join(r.cfg.Names, ", ")), http.StatusNotFound)
	case action == "info/refs" && service == "":
		http.Error(w, "this remote speaks only the smart HTTP protocol of git: clone it with git, not with a browser or a program that copies files", http.StatusForbidden)
	case service != uploadPack && service != receivePack:
		http.Error(w, "no such Git service", http.StatusNotFound)
	case req.Method != method:
		w.Header().Set("Allow", method)
		http.Error(w, "use "+method, http.StatusMethodNotAllowed)
	case service == uploadPack && !replica && !r.mayFetch(req.Context(), name, u):
		http.Error(w, fmt.Sprintf("user %q may not clone or fetch: fetching needs the verb get on repositories/git of the group writ.dev (name %s) in a ClusterRole, or a rule that names the user or a group in spec.pushes of Repository/%s",
			u.GetName(), name, name), http.StatusForbidden)
	case service == receivePack && !r.mayPushSomewhere(name, u):
		need := "one of the groups " + strings.Join(pushers, ", ") + ": push with pusher.gitconfig of the server's data directory, or have spec.pushes of Repository/" + name + " name you"
		if r.rules(name) != nil {
			need = "a rule that names the user or a group: have spec.pushes of Repository/" + name + " name you"
		}
		may := "may not push"
		if r.mayFetch(req.Context(), name, u) {
			may = "may clone and fetch but not push"
		}
		http.Error(w, fmt.Sprintf("user %q %s: pushing needs %s", u.GetName(), may, need), http.StatusForbidden)
	case action == "info/refs":
		if service == receivePack {
			go r.warm(context.WithoutCancel(req.Context())) // while the client packs
		}
		r.advertise(w, req, repo, service)
	default:
		r.exchange(w, req, repo, service, u, replica)
	}
}

// exchange serves the POST of a service.
func (r *Remote) exchange(w http.ResponseWriter, req *http.Request, repo *repository, service string, u user.Info, replica bool) {
	if req.Header.Get("Content-Type") != "application/x-"+service+"-request" {
		http.Error(w, "the content type must be application/x-"+service+"-request", http.StatusUnsupportedMediaType)
		return
	}
	body := io.Reader(req.Body)
	switch req.Header.Get("Content-Encoding") {
	case "", "identity":
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(req.Body)
		if err != nil {
			http.Error(w, "the body is not gzip: "+err.Error(), http.StatusBadRequest)
			return
		}
		defer z.Close()
		body = z
	default:
		http.Error(w, "the content encoding must be gzip or none", http.StatusUnsupportedMediaType)
		return
	}
	at := &r.fetching
	if service == receivePack {
		at = &r.pushing
	}
	if !replica { // servers must have from each other what was pushed, whoever else is served
		release, ok := at.acquire(req.Context(), u.GetName())
		if !ok {
			w.Header().Set("Retry-After", "10")
			http.Error(w, "the remote is busy with other clones, fetches and pushes: try again in a while", http.StatusTooManyRequests)
			return
		}
		defer release()
	}
	w.Header().Set("Content-Type", "application/x-"+service+"-result")
	if service == uploadPack {
		r.upload(w, req, repo, newPacketReader(body), replica)
		return
	}
	r.receive(w, req, repo, newPacketReader(body), u)
}

// userOf is the user of a request; an anonymous one is none.
func userOf(req *http.Request) (user.Info, bool) {
	u, ok := request.UserFrom(req.Context())
	if !ok || u == nil || u.GetName() == user.Anonymous || slices.Contains(u.GetGroups(), user.AllUnauthenticated) {
		return nil, false
	}
	return u, true
}

func mayPush(u user.Info) bool {
	return slices.ContainsFunc(u.GetGroups(), func(g string) bool { return slices.Contains(pushers, g) })
}

// badRequest answers a request that does not follow the protocol.
func badRequest(w http.ResponseWriter, err error) {
	http.Error(w, "malformed Git request: "+err.Error(), http.StatusBadRequest)
}
