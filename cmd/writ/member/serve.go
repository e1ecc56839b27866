package member

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/writ-os/writ/controlplane/store"
)

// Path is where servers are listed, joined and removed. The authorizer decides
// who may: get it and it/backup, post to it/join and it/reset, delete it/<name>.
const Path = "/servers"

const (
	joinPath  = Path + "/join"
	resetPath = Path + "/reset"
)

// maxRequest bounds what one that joins may send.
const maxRequest = 64 << 10

// Request is what a server says that wants to join.
type Request struct {
	Name    string `json:"name"`
	URL     string `json:"url"` // of the member, for the others
	Version string `json:"version,omitempty"`
}

// Shared is what all servers have alike. It is secret.
type Shared struct {
	// Files by path below the data directory.
	Files map[string][]byte `json:"files"`
	// Settings are those of the flags that must not differ.
	Settings json.RawMessage `json:"settings,omitempty"`
}

// Answer is what it is given.
type Answer struct {
	Shared
	Peers []string `json:"peers"`
}

// Server is what `writ member list` shows.
type Server struct {
	store.Member
	// Address of its API server, and whether it answers, as far as is known.
	Address string `json:"address,omitempty"`
	Ready   bool   `json:"ready"`
}

// Role is what a server does among the others.
func (s *Server) Role() string {
	switch {
	case s.Leader:
		return "leader"
	case s.Learner:
		return "joining"
	}
	return "follower"
}

// ErrBecoming says that a server that was alone becomes the first of several:
// it starts anew for that, and is to be asked again.
var ErrBecoming = errors.New("this server becomes the first of several: ask again")

// Host is what the handler needs of the server that it is part of.
type Host struct {
	// Authorize says whether a user may do it.
	Authorize func(ctx context.Context, u user.Info, verb, path string) (bool, error)
	// Begin makes this server one of several, or returns ErrBecoming.
	Begin func() error
	// Shared is what others need.
	Shared func() (Shared, error)
	Add    func(ctx context.Context, name, url string) (*store.Joining, error)
	List   func(ctx context.Context) ([]Server, error)
	Remove func(ctx context.Context, name string) error
	// Reset says what a reset of this server takes away, and begins it when the
	// name of the server is given; it refuses what is not lost.
	Reset func(ctx context.Context, confirm string) (Loss, error)
	// Backup writes all that is stored.
	Backup func(ctx context.Context, w io.Writer) error
	// Keys are those of this server, Encrypt gives all servers the same.
	Keys    KeyHolder
	Encrypt func(ctx context.Context) (Encrypted, error)
	Log     *slog.Logger
}

// ServeHTTP implements http.Handler.
func (h *Host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, one := strings.CutPrefix(r.URL.Path, Path+"/")
	verb := strings.ToLower(r.Method)
	u, known := request.UserFrom(r.Context())
	if !known {
		refuse(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
		return
	}
	switch allowed, err := h.Authorize(r.Context(), u, verb, r.URL.Path); {
	case err != nil:
		refuse(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, "cannot decide who may do this now")
		return
	case !allowed:
		h.Log.Warn("refused at the servers", "user", u.GetName(), "remote", r.RemoteAddr, "verb", verb, "path", r.URL.Path)
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Sprintf("%q may not %s %s: a server joins by a token of 'writ token create --role server'", u.GetName(), verb, r.URL.Path))
		return
	}
	switch {
	case r.URL.Path == Path && r.Method == http.MethodGet:
		all, err := h.List(r.Context())
		answer(w, all, err)
	case r.URL.Path == backupPath && r.Method == http.MethodGet:
		h.backup(w, r, u.GetName())
	case r.URL.Path == keysPath && (r.Method == http.MethodGet || r.Method == http.MethodPut):
		h.keys(w, r, u.GetName())
	case r.URL.Path == encryptPath && r.Method == http.MethodPost:
		e, err := h.Encrypt(r.Context())
		if err == nil && !e.Already {
			h.Log.Info("what is stored is encrypted from now on", "user", u.GetName(), "remote", r.RemoteAddr, "servers", e.Servers)
		}
		answer(w, e, err)
	case r.URL.Path == joinPath && r.Method == http.MethodPost:
		h.join(w, r, u)
	case r.URL.Path == resetPath && r.Method == http.MethodPost:
		loss, err := h.Reset(r.Context(), r.URL.Query().Get("confirm"))
		if err == nil && r.URL.Query().Has("confirm") {
			h.Log.Warn("this server is reset", "user", u.GetName(), "remote", r.RemoteAddr, "dropped", len(loss.Dropped))
		}
		answer(w, loss, err)
	case one && name != "" && r.Method == http.MethodDelete:
		err := h.Remove(r.Context(), name)
		if err == nil {
			h.Log.Info("server removed", "user", u.GetName(), "name", name)
		}
		answer(w, struct{}{}, err)
	default:
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
	}
}

// join adds a server and gives it what it needs.
func (h *Host) join(w http.ResponseWriter, r *http.Request, u user.Info) {
	var in Request
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err == nil {
		err = json.Unmarshal(body, &in)
	}
	if err != nil || in.Name == "" || in.URL == "" {
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "a server joins with its name and its URL")
		return
	}
	if err := h.Begin(); err != nil {
		answer(w, nil, err)
		return
	}
	joining, err := h.Add(r.Context(), in.Name, in.URL)
	if err != nil {
		h.Log.Warn("server not added", "name", in.Name, "url", in.URL, "user", u.GetName(), "err", err)
		answer(w, nil, err)
		return
	}
	shared, err := h.Shared()
	if err == nil {
		// Who has them has the cluster: it must be known who was given them.
		h.Log.Warn("the keys of the cluster are given to a server that joins", "name", in.Name, "url", in.URL, "member", joining.ID.String(),
			"version", in.Version, "user", u.GetName(), "remote", r.RemoteAddr)
	}
	answer(w, Answer{Shared: shared, Peers: joining.Peers}, err)
}

func answer(w http.ResponseWriter, what any, err error) {
	switch {
	case errors.Is(err, ErrBecoming), errors.Is(err, store.ErrUnavailable):
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, err.Error())
	case err != nil:
		refuse(w, http.StatusConflict, metav1.StatusReasonConflict, err.Error())
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(what) //nolint:errcheck // the client has gone
	}
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, //nolint:errcheck // the client has gone
		Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message}) //nolint:gosec // codes of HTTP are small
}
