package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/etcdhttp"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/etcdserver/api/rafthttp"
	"go.uber.org/zap"
)

// inStepPath answers whether a member is in step with its leader.
const inStepPath = "/writ/instep"

// peers is the traffic between members: etcd's own, over mutual TLS.
type peers struct {
	listener net.Listener
	server   *http.Server
	client   *http.Transport
	failed   chan error
}

func listenPeers(m *Members, dial time.Duration) (*peers, error) {
	info := m.info()
	rt, err := rafthttp.NewRoundTripper(info, dial)
	if err != nil {
		return nil, fmt.Errorf("read the certificates of member %s: %w", m.Name, err)
	}
	client, ok := rt.(*http.Transport)
	if !ok {
		return nil, fmt.Errorf("etcd's transport is a %T", rt)
	}
	l, err := transport.NewListenerWithOpts(m.Listen, "https",
		transport.WithTLSInfo(&info), transport.WithTimeout(rafthttp.ConnReadTimeout, rafthttp.ConnWriteTimeout))
	if err != nil {
		return nil, fmt.Errorf("listen to the other members: %w", err)
	}
	return &peers{listener: l, client: client, failed: make(chan error, 1)}, nil
}

// serve answers the other members until close, and those of clusters that are no
// more.
func (p *peers) serve(lg *zap.Logger, server *etcdserver.EtcdServer, own map[string]http.HandlerFunc, former []string) {
	mux := http.NewServeMux()
	mux.Handle("/", dismiss(former, etcdhttp.NewPeerHandler(lg, server)))
	for path, serve := range own {
		mux.HandleFunc("GET "+path, serve)
	}
	p.server = &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: rafthttp.ConnReadTimeout, ReadTimeout: 5 * time.Minute, // as etcd has it: a snapshot takes its time
		ErrorLog: log.New(io.Discard, "", 0), // members come and go
	}
	go func() {
		if err := p.server.Serve(p.listener); !errors.Is(err, http.ErrServerClosed) {
			p.failed <- err
		}
	}()
}

// dismiss tells the members of former clusters that they are members no more, as
// etcd does with those that were removed.
func dismiss(former []string, next http.Handler) http.Handler {
	if len(former) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slices.Contains(former, r.Header.Get("X-Etcd-Cluster-ID")) { // of rafthttp
			w.Header().Set("X-Server-Version", version.Version) // without it the answer counts as that of etcd 2
			http.Error(w, "removed member", http.StatusGone)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// close ends all connections.
func (p *peers) close() {
	if p.server != nil {
		_ = p.server.Close() // nobody hears of it any more
	} else {
		_ = p.listener.Close()
	}
	p.client.CloseIdleConnections()
}

// inStep asks a member whether it is in step.
func (p *peers) inStep(ctx context.Context, m *membership.Member) bool {
	return p.ask(ctx, m, inStepPath)
}

// ask asks a member what it answers with yes or no.
func (p *peers) ask(ctx context.Context, m *membership.Member, path string) bool {
	code, _ := p.get(ctx, m, path)
	return code == http.StatusNoContent
}

// get returns what a member answers, 0 when it does not.
func (p *peers) get(ctx context.Context, m *membership.Member, path string) (code int, text string) {
	if len(m.PeerURLs) == 0 {
		return 0, ""
	}
	u, err := url.JoinPath(m.PeerURLs[0], path)
	if err != nil {
		return 0, ""
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, http.NoBody)
	if err != nil {
		return 0, ""
	}
	resp, err := p.client.RoundTrip(req)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if err != nil {
		return 0, ""
	}
	return resp.StatusCode, string(b)
}
