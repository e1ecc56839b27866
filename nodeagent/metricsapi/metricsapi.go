// Package metricsapi serves metrics.k8s.io/v1beta1, what kubectl top and the
// autoscaler ask: how much processor time and memory nodes and pods use.
//
//	nodes' /stats/summary ──every 15 s──> the last two of each ──> GET /apis/metrics.k8s.io/...
//
// It asks the nodes itself and keeps two answers per node, in memory: usage is
// the difference between them. It watches nothing and writes nothing. A node
// that does not answer has no figures, and nobody waits for it.
package metricsapi

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/writ-os/writ/nodeagent/stats"
)

// Config is everything that an API needs from outside.
type Config struct {
	// Nodes returns all nodes; Pods those of a namespace, "" is all. They are
	// asked for labels, and whether what was measured is still there.
	Nodes func() []*corev1.Node
	Pods  func(namespace string) []*corev1.Pod
	// Fetch asks a node for its Summary; see Fetcher.
	Fetch func(ctx context.Context, node *corev1.Node) (*statsapi.Summary, error)
	// Interval between two questions to a node; default 15 s, as upstream's
	// metrics-server.
	Interval time.Duration
	Log      *slog.Logger
}

// API keeps figures and serves them; it is an http.Handler.
type API struct {
	cfg Config

	mu     sync.Mutex
	points map[string]*points // by node
}

// points are the last two answers of a node.
type points struct {
	before, after *statsapi.Summary
	failing       bool
}

// New returns an API; Run must be called for it to have figures.
func New(cfg Config) *API {
	if cfg.Interval == 0 {
		cfg.Interval = 15 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &API{cfg: cfg, points: map[string]*points{}}
}

// Run asks the nodes until ctx ends.
func (a *API) Run(ctx context.Context) error {
	tick := time.NewTicker(a.cfg.Interval)
	defer tick.Stop()
	for {
		a.ask(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// parallel is how many nodes are asked at once.
const parallel = 16

// ask asks every node once, and forgets those that are gone.
func (a *API) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Interval*2/3)
	defer cancel()
	nodes := a.cfg.Nodes()
	var wg sync.WaitGroup
	slots := make(chan struct{}, parallel)
	known := map[string]bool{}
	for _, n := range nodes {
		known[n.Name] = true
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			s, err := a.cfg.Fetch(ctx, n)
			a.keep(n.Name, s, err)
		})
	}
	wg.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	for name := range a.points {
		if !known[name] {
			delete(a.points, name)
		}
	}
}

// keep notes an answer. Figures of a node that does not answer are dropped:
// old ones would look like new ones.
func (a *API) keep(node string, s *statsapi.Summary, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.points[node]
	if p == nil {
		p = &points{}
		a.points[node] = p
	}
	if err != nil {
		if !p.failing {
			a.cfg.Log.Warn("measure node", "node", node, "err", err)
		}
		*p = points{failing: true}
		return
	}
	if p.after != nil && !s.Node.CPU.Time.After(p.after.Node.CPU.Time.Time) {
		return // the same answer again
	}
	p.before, p.after, p.failing = p.after, s, false
}

// nodes returns the figures of the nodes that a filter lets through.
func (a *API) nodes(ok func(*metav1.ObjectMeta) bool) []metricsv1beta1.NodeMetrics {
	out := []metricsv1beta1.NodeMetrics{}
	for _, n := range a.cfg.Nodes() {
		p := a.of(n.Name)
		if p.before == nil || !ok(&n.ObjectMeta) {
			continue
		}
		if m, known := stats.NodeUsage(p.before, p.after); known {
			m.Name, m.Labels = n.Name, n.Labels
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b metricsv1beta1.NodeMetrics) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// pods returns the figures of the pods of a namespace that a filter lets
// through.
func (a *API) pods(namespace string, ok func(*metav1.ObjectMeta) bool) []metricsv1beta1.PodMetrics {
	wanted := map[statsapi.PodReference]*corev1.Pod{}
	for _, p := range a.cfg.Pods(namespace) {
		if ok(&p.ObjectMeta) {
			wanted[statsapi.PodReference{Namespace: p.Namespace, Name: p.Name}] = p
		}
	}
	out := []metricsv1beta1.PodMetrics{}
	for _, n := range a.cfg.Nodes() {
		p := a.of(n.Name)
		if p.before == nil {
			continue
		}
		for _, m := range stats.PodUsage(p.before, p.after) {
			if pod := wanted[statsapi.PodReference{Namespace: m.Namespace, Name: m.Name}]; pod != nil && pod.Spec.NodeName == n.Name {
				m.Labels = pod.Labels
				out = append(out, m)
			}
		}
	}
	slices.SortFunc(out, func(a, b metricsv1beta1.PodMetrics) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

func (a *API) of(node string) points {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.points[node]; p != nil {
		return *p
	}
	return points{}
}
