package webhook

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics have upstream's names and labels.
type metrics struct {
	seconds  *prometheus.HistogramVec
	requests *prometheus.CounterVec
	refused  *prometheus.CounterVec
	open     *prometheus.CounterVec
}

// maxCode is the largest status code that gets a label of its own.
const maxCode = 600

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_admission_webhook_admission_duration_seconds", Help: "Admission webhook latency histogram in seconds, identified by name and broken out for each operation and API resource and type (validate or admit).",
			Buckets: []float64{0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10, 25},
		}, []string{"name", "type", "operation", "rejected"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_admission_webhook_request_total", Help: "Admission webhook request total, identified by name and broken out for each admission type (validating or mutating) and operation.",
		}, []string{"name", "type", "operation", "code", "rejected"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_admission_webhook_rejection_count", Help: "Admission webhook rejection count, identified by name and broken out for each admission type (validating or admit) and operation.",
		}, []string{"name", "type", "operation", "error_type", "rejection_code"}),
		open: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_admission_webhook_fail_open_count", Help: "Admission webhook fail open count, identified by name and broken out for each admission type (validating or mutating).",
		}, []string{"name", "type"}),
	}
	if reg != nil {
		reg.MustRegister(m.seconds, m.requests, m.refused, m.open)
	}
	return m
}

func code(n int32) string { return strconv.Itoa(min(int(n), maxCode)) }

func (m *metrics) called(h *hook, op string, status int32, rejected bool, took time.Duration) {
	no := strconv.FormatBool(rejected)
	m.seconds.WithLabelValues(h.Name, h.kind, op, no).Observe(took.Seconds())
	m.requests.WithLabelValues(h.Name, h.kind, op, code(status), no).Inc()
}

func (m *metrics) rejected(h *hook, op, why string, status int32) {
	m.refused.WithLabelValues(h.Name, h.kind, op, why, code(status)).Inc()
}

func (m *metrics) failedOpen(h *hook) { m.open.WithLabelValues(h.Name, h.kind).Inc() }
