package store

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts what a store does. It is a prometheus.Collector; whoever wires
// the process registers it.
type Metrics struct {
	txnSeconds       prometheus.Histogram
	conflicts        prometheus.Counter
	applied          prometheus.Counter
	unreadable       prometheus.Counter
	unreadableValues prometheus.Gauge
	stale            prometheus.Gauge
	resealed         prometheus.Counter
	expired          prometheus.Counter
	cutOff           prometheus.Counter
	reloads          prometheus.Counter
	watchers         prometheus.Gauge
}

var _ prometheus.Collector = (*Metrics)(nil)

// NewMetrics returns metrics that start at zero.
func NewMetrics() *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "writ", Subsystem: "store", Name: name, Help: help})
	}
	return &Metrics{
		txnSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "writ", Subsystem: "store", Name: "txn_duration_seconds",
			Help:    "Time from the call of a stored transaction until the copy has it.",
			Buckets: prometheus.ExponentialBuckets(0.0002, 2, 16),
		}),
		conflicts:  counter("conflicts_total", "Transactions refused by a precondition."),
		applied:    counter("applied_events_total", "Changes applied to the copy."),
		unreadable: counter("unreadable_total", "Keys and values found that are not understood."),
		cutOff:     counter("watches_cut_off_total", "Watches ended because their reader was too slow."),
		reloads:    counter("reloads_total", "Times the whole copy was loaded again: another member's snapshot took the place of history."),
		stale: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "writ", Subsystem: "store", Name: "stale_values",
			Help: "Values left to store under the newest key, on the server that leads. An old key may go when it is 0.",
		}),
		expired:  counter("expired_events_total", "Events deleted because they were old or too many."),
		resealed: counter("resealed_total", "Values stored anew under the newest key."),
		unreadableValues: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "writ", Subsystem: "store", Name: "unreadable_values",
			Help: "Stored values that this server cannot read now. While there are any it does not lead.",
		}),
		watchers: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "writ", Subsystem: "store", Name: "watchers", Help: "Watches that are open.",
		}),
	}
}

func (m *Metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.txnSeconds, m.conflicts, m.applied, m.unreadable, m.unreadableValues, m.stale, m.resealed, m.expired, m.cutOff, m.reloads, m.watchers}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.all() {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.all() {
		c.Collect(ch)
	}
}
