package scheduler

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics have upstream's names and labels.
type metrics struct {
	scheduled     prometheus.Counter
	unschedulable prometheus.Counter
	failed        prometheus.Counter
	attempts      *prometheus.CounterVec
	duration      prometheus.Histogram
	pending       *prometheus.GaugeVec
	idle          prometheus.Counter
}

func newMetrics() *metrics {
	m := &metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "scheduler_schedule_attempts_total",
			Help: "Number of attempts to schedule pods, by the result.",
		}, []string{"result", "profile"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "scheduler_scheduling_algorithm_duration_seconds",
			Help:    "Time that the decision about one pod took.",
			Buckets: prometheus.ExponentialBuckets(0.00001, 2, 18),
		}),
		pending: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "scheduler_pending_pods",
			Help: "Number of pods that wait for a node, by queue.",
		}, []string{"queue"}),
		idle: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "writ_scheduler_idle_wakes_total",
			Help: "Wakes held back because the queue asked for the next round at once, again and again, with nothing to do.",
		}),
	}
	m.scheduled = m.attempts.WithLabelValues("scheduled", DefaultName)
	m.unschedulable = m.attempts.WithLabelValues("unschedulable", DefaultName)
	m.failed = m.attempts.WithLabelValues("error", DefaultName)
	return m
}

// Collectors returns the metrics, to be registered by main.
func (s *Scheduler) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.metrics.attempts, s.metrics.duration, s.metrics.pending, s.metrics.idle}
}

func (m *metrics) decided(d *decision, took time.Duration) {
	m.duration.Observe(took.Seconds())
	if d.node == nil {
		m.unschedulable.Inc()
	}
}

func (m *metrics) observe(q *queue) {
	m.pending.WithLabelValues("active").Set(float64(q.count(active)))
	m.pending.WithLabelValues("backoff").Set(float64(q.count(backingOff)))
	m.pending.WithLabelValues("unschedulable").Set(float64(q.count(unschedulable)))
}
