package cluster

import (
	"context"
	"crypto/tls"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/writ-os/writ/controlplane/apiserver"
	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/auth/pki"
	"github.com/writ-os/writ/controlplane/members"
)

// The server that leads serves Git and what forges call. Others pass such
// requests on, in the name of the user whom they know, as front proxies do
// (auth.FrontProxy).
const passedOn = "Writ-Passed-On" // by a server that took another one for the leader

func (p *ControlPlane) gitMounts() []apiserver.Mount {
	mounts := []apiserver.Mount{{Prefix: "/hooks/", Handler: p.atLeader(func(r *repository) http.Handler { return r.webhooks }), Audited: true}}
	if p.cfg.BuiltIn() {
		mounts = append(mounts, apiserver.Mount{Prefix: "/git/", Handler: p.atLeader(func(r *repository) http.Handler { return r.remote }), Audited: true})
	}
	return mounts
}

// replicas serves the copy of the repository to the other servers.
func (p *ControlPlane) replicas() []apiserver.Mount {
	if p.replica == nil {
		return nil
	}
	return []apiserver.Mount{{Prefix: replicaPrefix + "/", Handler: serveReplica(p.remote, p.replica)}}
}

// Somebody leads soon: servers that just started or lost their leader elect one
// within a second or two. Git does not try again by itself, so its requests wait.
const (
	leaderWait  = 10 * time.Second
	leaderEvery = 100 * time.Millisecond
)

// atLeader serves by what this server has while it leads.
func (p *ControlPlane) atLeader(of func(*repository) http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		elsewhere := p.roll.Leader
		if r.Header.Get(passedOn) != "" { // servers that disagree would pass it on for ever
			elsewhere = nil
		}
		git, at, err := awaitLeader(r.Context(), p.git.Load, elsewhere)
		switch {
		case git != nil:
			of(git).ServeHTTP(w, r)
		case err != nil:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "no server leads now: try again", http.StatusServiceUnavailable)
		default:
			p.passOn(at).ServeHTTP(w, r)
		}
	})
}

// awaitLeader is the repository of this server once it leads, or else the address
// of the server that does.
func awaitLeader(ctx context.Context, own func() *repository, elsewhere func(context.Context) (netip.AddrPort, error)) (*repository, netip.AddrPort, error) {
	ctx, cancel := context.WithTimeout(ctx, leaderWait)
	defer cancel()
	tick := time.NewTicker(leaderEvery)
	defer tick.Stop()
	for {
		if git := own(); git != nil {
			return git, netip.AddrPort{}, nil
		}
		if elsewhere != nil {
			if at, err := elsewhere(ctx); err == nil {
				return nil, at, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, netip.AddrPort{}, members.ErrNoLeader
		case <-tick.C:
		}
	}
}

func (p *ControlPlane) passOn(at netip.AddrPort) http.Handler {
	return &httputil.ReverseProxy{
		FlushInterval: -1, // what a push is told comes line by line
		Transport:     p.toServers,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "https", Host: at.String()})
			h := r.Out.Header
			h.Del("Authorization") // who it is has been found out
			for _, name := range slices.Collect(maps.Keys(h)) {
				if strings.HasPrefix(name, remotePrefix) {
					h.Del(name)
				}
			}
			h.Set(passedOn, p.member.Name)
			if u, ok := request.UserFrom(r.In.Context()); ok {
				h.Set(remotePrefix+"User", u.GetName())
				for _, g := range u.GetGroups() {
					h.Add(remotePrefix+"Group", g)
				}
			}
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			p.log("members").Warn("request not passed on to the server that leads", "leader", at.String(), "path", r.URL.Path, "err", err)
			w.Header().Set("Retry-After", "1")
			http.Error(w, "the server that leads does not answer: try again", http.StatusServiceUnavailable)
		},
	}
}

const remotePrefix = "X-Remote-"

// newToServers is how this server calls others of its kind, in the name of users
// or as itself.
func (p *ControlPlane) newToServers(certificate func() (*tls.Certificate, error)) *http.Transport {
	return &http.Transport{
		TLSHandshakeTimeout: 5 * time.Second, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: false, DisableCompression: true,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: p.authority.Pool(), ServerName: "kubernetes",
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate() }},
	}
}

// ownCertificate is by which this server calls others as itself: whichever front
// proxies the operator trusts.
func (p *ControlPlane) ownCertificate() (*tls.Certificate, error) {
	pair, err := p.authority.IssueClient(pki.Client{User: identity.APIServer, Groups: []string{user.SystemPrivilegedGroup}, TTL: time.Hour})
	if err != nil {
		return nil, err
	}
	c := pair.TLS()
	return &c, nil
}
