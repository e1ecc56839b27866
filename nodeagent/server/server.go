// Package server is the node agent's HTTPS face on port 10250, with the paths
// of upstream's kubelet: what the API server asks when somebody wants a log.
//
// It owns its listener alone; pods and logs belong to others. It promises to
// answer nobody but holders of a client certificate of the cluster's CA in the
// group system:masters, /healthz excepted.
package server

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pods are the pods of the node; *pod.Pods is one.
type Pods interface {
	Get(namespace, name string) (*corev1.Pod, bool)
	List() []*corev1.Pod
	// LogPath is the log of an attempt of a container.
	LogPath(pod *corev1.Pod, container string, attempt int) string
}

// Config is everything the server needs from outside.
type Config struct {
	// Listener, already open.
	Listener net.Listener
	// TLS has the serving certificate, and the cluster's CA in ClientCAs.
	TLS  *tls.Config
	Pods Pods
	Log  *slog.Logger
}

// Server answers for one node.
type Server struct{ cfg Config }

// New returns a server; it starts nothing.
func New(cfg Config) *Server { return &Server{cfg: cfg} }

// allowed is the group that may ask.
const allowed = "system:masters"

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	conf := s.cfg.TLS.Clone()
	conf.MinVersion, conf.ClientAuth = tls.VersionTLS12, tls.VerifyClientCertIfGiven
	srv := &http.Server{
		Handler: s.Handler(), TLSConfig: conf, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() }) // logs that are followed have no end of their own
	defer stop()
	if err := srv.ServeTLS(s.cfg.Listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve node: %w", err)
	}
	return nil
}

// Handler returns the routes.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	mux.Handle("GET /pods", known(s.pods))
	mux.Handle("GET /containerLogs/{namespace}/{pod}/{container}", known(s.logs))
	return mux
}

// known lets through who may ask.
func known(h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		who := r.TLS.VerifiedChains[0][0].Subject
		if !slices.Contains(who.Organization, allowed) {
			http.Error(w, fmt.Sprintf("Forbidden (user=%s, verb=get, resource=nodes, subresource=proxy)", who.CommonName), http.StatusForbidden)
			return
		}
		h(w, r)
	})
}

func (s *Server) pods(w http.ResponseWriter, _ *http.Request) {
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{}}
	for _, p := range s.cfg.Pods.List() {
		list.Items = append(list.Items, *p)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list) //nolint:errcheck // the client is gone
}
