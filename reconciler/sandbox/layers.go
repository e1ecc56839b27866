package sandbox

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Layers is what keeps a child apart. Each that is missing has its reason.
type Layers struct {
	// User: it has a user of its own.
	User bool
	// Namespaces: it has a network, processes and mounts of its own.
	Namespaces bool
	// Landlock is the version of the kernel's; 0: none.
	Landlock int
	// Seccomp: it has few system calls, and no new privileges.
	Seccomp bool
	// Missing says why, for each layer that is.
	Missing map[string]string
}

// Names of the layers, in metrics and logs.
const (
	layerUser       = "user"
	layerNamespaces = "namespaces"
	layerLandlock   = "landlock"
	layerSeccomp    = "seccomp"
)

func (l *Layers) has() map[string]bool {
	return map[string]bool{layerUser: l.User, layerNamespaces: l.Namespaces, layerLandlock: l.Landlock > 0, layerSeccomp: l.Seccomp}
}

// Layers is what keeps the children apart; nil as long as none has been started.
func (s *Sandbox) Layers() *Layers {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.layers
}

// Lacks lists the layers that are missing, with the reasons.
func (l *Layers) Lacks() []string {
	var out []string
	for name, ok := range l.has() {
		if !ok {
			out = append(out, strings.TrimSuffix(fmt.Sprintf("%s: %s", name, l.Missing[name]), ": "))
		}
	}
	slices.Sort(out)
	return out
}

// counts is what has happened so far.
type counts struct {
	starts int
	deaths map[Cause]int
	peak   int64 // bytes of memory that a child had at most
}

// started notes a child that is ready, and says once what it lacks.
func (s *Sandbox) started(l *Layers, c *child) {
	s.mu.Lock()
	first := !s.told
	s.told, s.layers = true, l
	s.counts.starts++
	s.mu.Unlock()
	if missing := l.Lacks(); first && len(missing) > 0 && s.cfg.Log != nil {
		s.cfg.Log.Warn("what others wrote is evaluated in a child that is less confined than it could be", "missing", missing)
	}
	go func() {
		<-c.ended
		peak := c.peak()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.counts.peak = max(s.counts.peak, peak)
	}()
}

func (s *Sandbox) count(c Cause) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.deaths[c]++
}

var (
	layerDesc  = prometheus.NewDesc("writ_sandbox_layer", "What keeps the child apart that evaluates what others wrote: 1, or 0 where the kernel does not offer it.", []string{"layer"}, nil)
	startsDesc = prometheus.NewDesc("writ_sandbox_starts_total", "Children that were started.", nil, nil)
	deathsDesc = prometheus.NewDesc("writ_sandbox_deaths_total", "Evaluations that have cost a child, or their answer.", []string{"cause"}, nil)
)

// Describe implements prometheus.Collector.
func (s *Sandbox) Describe(ch chan<- *prometheus.Desc) {
	ch <- layerDesc
	ch <- startsDesc
	ch <- deathsDesc
}

// Collect implements prometheus.Collector. Which layers there are is known when
// the first child has been started.
func (s *Sandbox) Collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.layers != nil {
		for name, ok := range s.layers.has() {
			v := 0.0
			if ok {
				v = 1
			}
			ch <- prometheus.MustNewConstMetric(layerDesc, prometheus.GaugeValue, v, name)
		}
	}
	ch <- prometheus.MustNewConstMetric(startsDesc, prometheus.CounterValue, float64(s.counts.starts))
	for _, c := range []Cause{Memory, Late, Crashed, Failed, Garbage} {
		ch <- prometheus.MustNewConstMetric(deathsDesc, prometheus.CounterValue, float64(s.counts.deaths[c]), string(c))
	}
}
