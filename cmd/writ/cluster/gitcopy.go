package cluster

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/auth/pki"
	"github.com/writ-os/writ/controlplane/members"
	"github.com/writ-os/writ/reconciler/receive"
	"github.com/writ-os/writ/reconciler/source"
)

// replicaPrefix is where a server serves its copy of the repository to the others.
const replicaPrefix = "/replica"

// gitCopy is the built-in repository as this server has it. It calls the other
// servers in the name of this one.
type gitCopy struct {
	remote    *receive.Remote
	authority *pki.Authority
	server    string // the name of this one
	call      http.RoundTripper
}

var _ members.Copy = gitCopy{}

// Refs implements members.Copy.
func (c gitCopy) Refs() (map[string]string, error) { return c.remote.Refs(RepositoryName) }

// Missing implements members.Copy.
func (c gitCopy) Missing(refs map[string]string) ([]string, error) {
	return c.remote.Missing(RepositoryName, refs)
}

// Adopt implements members.Copy.
func (c gitCopy) Adopt(refs map[string]string) ([]string, error) {
	return c.remote.Adopt(RepositoryName, refs)
}

// AdoptFrom implements members.Copy.
func (c gitCopy) AdoptFrom(ctx context.Context, at netip.AddrPort, refs map[string]string) ([]string, error) {
	auth, err := c.auth()
	if err != nil {
		return nil, err
	}
	return c.remote.AdoptFrom(ctx, RepositoryName, replicaAt(at), auth, refs)
}

// Pull implements members.Copy.
func (c gitCopy) Pull(ctx context.Context, at netip.AddrPort) error {
	auth, err := c.auth()
	if err != nil {
		return err
	}
	return c.remote.Pull(ctx, RepositoryName, replicaAt(at), auth)
}

// HavePull implements members.Copy.
func (c gitCopy) HavePull(ctx context.Context, at netip.AddrPort) error {
	u := url.URL{Scheme: "https", Host: at.String(), Path: replicaPrefix + "/pull", RawQuery: url.Values{"from": {c.server}}.Encode()}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), nil)
	if err != nil {
		return err
	}
	resp, err := c.call.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) //nolint:errcheck // a courtesy
		return fmt.Errorf("%s answers %s: %s", at, resp.Status, strings.TrimSpace(string(said)))
	}
	return nil
}

func replicaAt(at netip.AddrPort) string {
	return "https://" + at.String() + replicaPrefix + "/git/" + RepositoryName + ".git"
}

func (c gitCopy) auth() (source.Auth, error) {
	pair, err := c.authority.IssueClient(pki.Client{User: identity.APIServer, Groups: []string{user.SystemPrivilegedGroup}, TTL: time.Hour})
	return source.Auth{CA: c.authority.CAPEM(), ClientCert: pair.CertPEM, ClientKey: pair.KeyPEM}, err
}

// serveReplica serves the repository of this server to the others of the cluster,
// whoever leads.
func serveReplica(remote *receive.Remote, replica *members.Replica) http.Handler {
	git := http.StripPrefix(replicaPrefix, remote.Replica())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, ok := request.UserFrom(r.Context())
		switch {
		case !ok || !identity.InGroup(u, user.SystemPrivilegedGroup):
			http.Error(w, "this is for the servers of the cluster", http.StatusForbidden)
		case r.Method == http.MethodPost && r.URL.Path == replicaPrefix+"/pull":
			if err := replica.PullFrom(r.Context(), r.URL.Query().Get("from")); err != nil {
				http.Error(w, err.Error(), http.StatusConflict)
			}
		case strings.HasSuffix(r.URL.Path, "/git-receive-pack") || r.URL.Query().Get("service") == "git-receive-pack":
			http.Error(w, "push to /git/", http.StatusForbidden)
		default:
			git.ServeHTTP(w, r)
		}
	})
}
