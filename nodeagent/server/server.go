// Package server is the node agent's HTTPS face on port 10250, with the paths
// of upstream's kubelet: what the API server asks when somebody wants a log, of a
// container or of the node's own services.
//
// It owns its listener alone; pods and logs belong to others. It promises to
// answer nobody but holders of a client certificate of the cluster's CA in the
// group of API servers' calls to nodes, or in system:masters, /healthz excepted.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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
	// Streams serve exec, attach and port-forward; nil has none.
	Streams Streams
	// Measures serve statistics; nil has none.
	Measures Measures
	// Metrics are added to /metrics.
	Metrics []prometheus.Collector
	// Checks of /healthz.
	Checks []Check
	// Config is what /configz shows: JSON.
	Config any
	// Journal serves the logs of the node itself; nil has none.
	Journal *Journal
	Log     *slog.Logger
}

// Server answers for one node.
type Server struct {
	cfg     Config
	held    sync.WaitGroup // connections that have left the HTTP server
	queries chan struct{}  // one for each query of logs that runs
}

// New returns a server; it starts nothing.
func New(cfg Config) *Server { return &Server{cfg: cfg, queries: make(chan struct{}, maxQueries)} }

// allowed are the groups that may ask: API servers in their calls to nodes, and
// administrators. Servers of before had themselves written down as the latter.
var allowed = []string{"system:writ:kubelet-clients", "system:masters"}

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
	defer s.held.Wait()
	if err := srv.ServeTLS(s.cfg.Listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve node: %w", err)
	}
	return nil
}

// Handler returns the routes.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /healthz/{check}", s.healthz)
	mux.Handle("GET /pods", known(s.pods))
	mux.Handle("GET /runningpods", known(s.running))
	mux.Handle("GET /runningpods/", known(s.running))
	mux.Handle("GET /configz", known(s.configz))
	mux.Handle("GET /metrics", known(s.metrics))
	if s.cfg.Measures != nil {
		mux.Handle("GET /stats/summary", known(s.summary))
		mux.Handle("POST /stats/summary", known(s.summary))
		mux.Handle("GET /metrics/resource", known(s.resources))
	}
	if s.cfg.Journal != nil {
		mux.Handle("GET /logs/", known(s.nodeLogs))
	} else {
		// As upstream with enableSystemLogHandler off.
		mux.HandleFunc("GET /logs/", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "logs endpoint is disabled.", http.StatusMethodNotAllowed)
		})
	}
	mux.Handle("GET /containerLogs/{namespace}/{pod}/{container}", known(s.logs))
	for path, h := range map[string]http.HandlerFunc{"exec": s.exec, "attach": s.attach, "run": s.run} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			if path == "run" && method == http.MethodGet {
				continue
			}
			mux.Handle(method+" /"+path+"/{namespace}/{pod}/{container}", known(h))
			mux.Handle(method+" /"+path+"/{namespace}/{pod}/{uid}/{container}", known(h))
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		mux.Handle(method+" /portForward/{namespace}/{pod}", known(s.forward))
		mux.Handle(method+" /portForward/{namespace}/{pod}/{uid}", known(s.forward))
	}
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
		if !slices.ContainsFunc(who.Organization, func(g string) bool { return slices.Contains(allowed, g) }) {
			verb, sub := asked(r)
			http.Error(w, fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource(s)=%v)\n", who.CommonName, verb, sub), http.StatusForbidden)
			return
		}
		h(w, r)
	})
}

// asked names what a request is about, as upstream's authorizers see it.
func asked(r *http.Request) (verb string, subresources []string) {
	verb = map[string]string{http.MethodGet: "get", http.MethodPost: "create"}[r.Method]
	first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch first {
	case "pods", "runningpods":
		return verb, []string{"pods", "proxy"}
	case "configz":
		return verb, []string{"configz", "proxy"}
	case "stats", "metrics":
		return verb, []string{first}
	case "logs":
		return verb, []string{"log"}
	}
	return verb, []string{"proxy"}
}

func (s *Server) pods(w http.ResponseWriter, _ *http.Request) {
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{}}
	for _, p := range s.cfg.Pods.List() {
		list.Items = append(list.Items, *p)
	}
	writeJSON(w, list)
}
