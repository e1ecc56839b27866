package reload

import (
	"crypto/sha256"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are upstream's apiserver_<name>_controller_automatic_reloads_total,
// ..._automatic_reload_last_timestamp_seconds and ..._last_config_info, for
// each file that is followed.
type Metrics struct {
	server string // hash of the server's name

	mu    sync.Mutex
	files map[string]*fileMetrics
}

type fileMetrics struct {
	total *prometheus.CounterVec
	last  *prometheus.GaugeVec
	info  *prometheus.GaugeVec
}

// NewMetrics returns the metrics of a server.
func NewMetrics(serverID string) *Metrics {
	return &Metrics{server: hash([]byte(serverID)), files: map[string]*fileMetrics{}}
}

var _ prometheus.Collector = (*Metrics)(nil)

// Describe implements prometheus.Collector: which files there are is not known
// beforehand.
func (*Metrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.files {
		f.total.Collect(ch)
		f.last.Collect(ch)
		f.info.Collect(ch)
	}
}

func (m *Metrics) of(name string) *fileMetrics {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.files[name]
	if f == nil {
		full := func(s string) string { return prometheus.BuildFQName("apiserver", name+"_controller", s) }
		labels := []string{"status", "apiserver_id_hash"}
		f = &fileMetrics{
			total: prometheus.NewCounterVec(prometheus.CounterOpts{
				Name: full("automatic_reloads_total"), Help: "Total number of automatic reloads split by status and apiserver identity."}, labels),
			last: prometheus.NewGaugeVec(prometheus.GaugeOpts{
				Name: full("automatic_reload_last_timestamp_seconds"), Help: "Timestamp of the last automatic reload split by status and apiserver identity."}, labels),
			info: prometheus.NewGaugeVec(prometheus.GaugeOpts{
				Name: full("last_config_info"), Help: "Information about the last applied configuration with hash as label, split by apiserver identity."}, []string{"apiserver_id_hash", "hash"}),
		}
		m.files[name] = f
	}
	return f
}

// current says what is in force.
func (m *Metrics) current(name string, data [][]byte) {
	if m == nil {
		return
	}
	f := m.of(name)
	f.info.Reset()
	f.info.WithLabelValues(m.server, hash(data...)).Set(1)
}

func (m *Metrics) reloaded(name string, data [][]byte, err error) {
	if m == nil {
		return
	}
	f, status := m.of(name), "success"
	if err != nil {
		status = "failure"
	} else {
		m.current(name, data)
	}
	f.total.WithLabelValues(status, m.server).Inc()
	f.last.WithLabelValues(status, m.server).SetToCurrentTime()
}

// hash is upstream's; of several files it is that of all.
func hash(data ...[]byte) string {
	h := sha256.New()
	for _, d := range data {
		h.Write(d)
	}
	return fmt.Sprintf("sha256:%x", h.Sum(nil))
}
