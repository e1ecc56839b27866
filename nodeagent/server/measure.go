package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/writ-os/writ/nodeagent/stats"
)

// Measures are the figures of a node; *stats.Collector has them.
type Measures interface {
	Summary(ctx context.Context) (*statsapi.Summary, error)
}

// Check is something that has to be well for the node to be.
type Check struct {
	Name  string
	Check func(ctx context.Context) error
}

// summary answers /stats/summary.
func (s *Server) summary(w http.ResponseWriter, r *http.Request) {
	out, err := s.cfg.Measures.Summary(r.Context())
	if err != nil {
		refuse(w, http.StatusInternalServerError, "Internal Error: "+err.Error())
		return
	}
	if r.URL.Query().Get("only_cpu_and_memory") == "true" {
		onlyCPUAndMemory(out)
	}
	writeJSON(w, out)
}

// onlyCPUAndMemory leaves out the rest.
func onlyCPUAndMemory(s *statsapi.Summary) {
	s.Node.Network, s.Node.Fs, s.Node.Runtime, s.Node.Rlimit = nil, nil, nil, nil
	for i := range s.Pods {
		s.Pods[i].Network, s.Pods[i].ProcessStats = nil, nil
	}
}

// resources answers /metrics/resource.
func (s *Server) resources(w http.ResponseWriter, r *http.Request) {
	sum, err := s.cfg.Measures.Summary(r.Context())
	if err != nil {
		sum = nil // the metrics say so
	}
	serveMetrics(w, r, stats.Metrics{Summary: sum})
}

// metrics answers /metrics: this process, how many pods and containers there
// are, by upstream's names, and what others add.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	serveMetrics(w, r, append([]prometheus.Collector{
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), population(s.cfg.Pods.List()),
	}, s.cfg.Metrics...)...)
}

func serveMetrics(w http.ResponseWriter, r *http.Request, from ...prometheus.Collector) {
	reg := prometheus.NewRegistry()
	for _, c := range from {
		if err := reg.Register(c); err != nil {
			refuse(w, http.StatusInternalServerError, err.Error())
			return
		}
	}
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}

// population counts pods and containers. It implements prometheus.Collector.
type population []*corev1.Pod

var (
	desiredPods       = prometheus.NewDesc("kubelet_desired_pods", "[ALPHA] The number of pods the kubelet is being instructed to run.", nil, nil)
	runningPods       = prometheus.NewDesc("kubelet_running_pods", "[ALPHA] Number of pods that have a running pod sandbox", nil, nil)
	runningContainers = prometheus.NewDesc("kubelet_running_containers", "[ALPHA] Number of containers currently running", []string{"container_state"}, nil)
)

// Describe implements prometheus.Collector.
func (p population) Describe(ch chan<- *prometheus.Desc) {
	ch <- desiredPods
	ch <- runningPods
	ch <- runningContainers
}

// Collect implements prometheus.Collector.
func (p population) Collect(ch chan<- prometheus.Metric) {
	running, states := 0, map[string]float64{"running": 0, "exited": 0, "created": 0}
	for _, pod := range p {
		n := states["running"]
		for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses} {
			for i := range list {
				switch st := list[i].State; {
				case st.Running != nil:
					states["running"]++
				case st.Terminated != nil:
					states["exited"]++
				case list[i].ContainerID != "":
					states["created"]++
				}
			}
		}
		if states["running"] > n {
			running++
		}
	}
	ch <- prometheus.MustNewConstMetric(desiredPods, prometheus.GaugeValue, float64(len(p)))
	ch <- prometheus.MustNewConstMetric(runningPods, prometheus.GaugeValue, float64(running))
	for state, n := range states {
		ch <- prometheus.MustNewConstMetric(runningContainers, prometheus.GaugeValue, n, state)
	}
}

// running answers /runningpods: the pods that have a running container, with
// what the runtime knows of them.
func (s *Server) running(w http.ResponseWriter, _ *http.Request) {
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{}}
	for _, p := range s.cfg.Pods.List() {
		out := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, UID: p.UID}}
		for _, statuses := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses, p.Status.EphemeralContainerStatuses} {
			for i := range statuses {
				if statuses[i].State.Running != nil {
					out.Spec.Containers = append(out.Spec.Containers, corev1.Container{Name: statuses[i].Name, Image: statuses[i].Image})
				}
			}
		}
		if len(out.Spec.Containers) > 0 {
			list.Items = append(list.Items, out)
		}
	}
	writeJSON(w, list)
}

// configz answers /configz: what the node agent runs with, in upstream's words
// as far as they fit.
func (s *Server) configz(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, map[string]any{"kubeletconfig": s.cfg.Config})
}

// healthz answers /healthz and /healthz/{check}.
func (s *Server) healthz(w http.ResponseWriter, r *http.Request) {
	one := r.PathValue("check")
	var out strings.Builder
	known, failed := one == "" || one == "ping", false
	if one == "" || one == "ping" {
		out.WriteString("[+]ping ok\n")
	}
	for _, c := range s.cfg.Checks {
		if one != "" && one != c.Name {
			continue
		}
		known = true
		if err := c.Check(r.Context()); err != nil {
			failed = true
			fmt.Fprintf(&out, "[-]%s failed: reason withheld\n", c.Name)
			s.cfg.Log.Warn("health check", "check", c.Name, "err", err)
			continue
		}
		fmt.Fprintf(&out, "[+]%s ok\n", c.Name)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch _, verbose := r.URL.Query()["verbose"]; {
	case !known:
		http.NotFound(w, r)
	case failed:
		http.Error(w, out.String()+"healthz check failed", http.StatusInternalServerError)
	case verbose && one == "":
		_, _ = io.WriteString(w, out.String()+"healthz check passed\n") // the client is gone
	default:
		_, _ = io.WriteString(w, "ok")
	}
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) //nolint:errcheck // the client is gone
}
