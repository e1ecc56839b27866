package reconciler

import "github.com/prometheus/client_golang/prometheus"

// metrics are the reconciler's figures.
type metrics struct {
	commits     *prometheus.CounterVec
	apply       prometheus.Histogram
	healthy     prometheus.Histogram
	declared    prometheus.Gauge
	unready     prometheus.Gauge
	drift       prometheus.Counter
	fetchErrors prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		commits:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "writ_commits_total", Help: "Commits by what became of them."}, []string{"result"}),
		apply:       prometheus.NewHistogram(prometheus.HistogramOpts{Name: "writ_commit_apply_seconds", Help: "Time from seeing a commit to its place in the store.", Buckets: prometheus.ExponentialBuckets(0.01, 2, 12)}),
		healthy:     prometheus.NewHistogram(prometheus.HistogramOpts{Name: "writ_commit_healthy_seconds", Help: "Time from seeing a commit to all its objects healthy.", Buckets: prometheus.ExponentialBuckets(0.1, 2, 14)}),
		declared:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "writ_declared_objects", Help: "Objects that the applied commit declares."}),
		unready:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "writ_unhealthy_objects", Help: "Declared objects that are not healthy."}),
		drift:       prometheus.NewCounter(prometheus.CounterOpts{Name: "writ_drift_healed_total", Help: "Objects that were put back to what Git declares."}),
		fetchErrors: prometheus.NewCounter(prometheus.CounterOpts{Name: "writ_fetch_errors_total", Help: "Failures to read the repository."}),
	}
	if reg != nil {
		reg.MustRegister(m.commits, m.apply, m.healthy, m.declared, m.unready, m.drift, m.fetchErrors)
	}
	return m
}
