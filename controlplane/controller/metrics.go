package controller

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the metrics of all controllers of a process, under the names
// that upstream's dashboards know. A nil Metrics counts nothing.
type Metrics struct {
	registry prometheus.Registerer

	depth    *prometheus.GaugeVec
	adds     *prometheus.CounterVec
	retries  *prometheus.CounterVec
	waits    *prometheus.HistogramVec
	works    *prometheus.HistogramVec
	total    *prometheus.CounterVec
	errors   *prometheus.CounterVec
	terminal *prometheus.CounterVec
	panics   *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	active   *prometheus.GaugeVec
	idle     *prometheus.CounterVec
	busy     *prometheus.CounterVec
}

// NewMetrics registers the metrics of the controllers of a process.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	byName := []string{"name"}
	byController := []string{"controller"}
	buckets := prometheus.ExponentialBuckets(10e-9, 10, 12)
	m := &Metrics{
		registry: reg,
		depth:    prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "workqueue_depth", Help: "Current depth of workqueue"}, byName),
		adds:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "workqueue_adds_total", Help: "Total number of adds handled by workqueue"}, byName),
		retries:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "workqueue_retries_total", Help: "Total number of retries handled by workqueue"}, byName),
		waits:    prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "workqueue_queue_duration_seconds", Help: "How long in seconds an item stays in workqueue before being requested.", Buckets: buckets}, byName),
		works:    prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "workqueue_work_duration_seconds", Help: "How long in seconds processing an item from workqueue takes.", Buckets: buckets}, byName),
		total:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "controller_runtime_reconcile_total", Help: "Total number of reconciliations per controller"}, []string{"controller", "result"}),
		errors:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "controller_runtime_reconcile_errors_total", Help: "Total number of reconciliation errors per controller"}, byController),
		terminal: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "controller_runtime_terminal_reconcile_errors_total", Help: "Total number of terminal reconciliation errors per controller"}, byController),
		panics:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "controller_runtime_reconcile_panics_total", Help: "Total number of reconciliation panics per controller"}, byController),
		seconds:  prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "controller_runtime_reconcile_time_seconds", Help: "Length of time per reconciliation per controller", Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 12)}, byController),
		active:   prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "controller_runtime_active_workers", Help: "Number of currently used workers per controller"}, byController),
	}
	m.idle = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "writ_loop_idle_wakes_total", Help: "Wakes held back because a loop asked for the next round at once, again and again, without any effect"}, []string{"loop"})
	m.busy = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "writ_loop_busy_rests_total", Help: "Rounds put off because a loop woke itself a thousand times without a pause"}, []string{"loop"})
	reg.MustRegister(m.idle, m.busy)
	reg.MustRegister(m.depth, m.adds, m.retries, m.waits, m.works, m.total, m.errors, m.terminal, m.panics, m.seconds, m.active)
	return m
}

// queueMetrics are those of one queue.
type queueMetrics struct {
	depth         prometheus.Gauge
	adds, retries prometheus.Counter
	waits, works  prometheus.Observer
	idle, busy    prometheus.Counter
}

// queue returns the metrics of one queue. running reports the work in hand; it
// is asked when the metrics are read, so that an idle queue costs nothing.
func (m *Metrics) queue(name string, running func() (sum, longest time.Duration)) *queueMetrics {
	if m == nil {
		return nil
	}
	labels := prometheus.Labels{"name": name}
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "workqueue_unfinished_work_seconds", ConstLabels: labels, Help: "How many seconds of work has done that is in progress and hasn't been observed by work_duration."},
			func() float64 { sum, _ := running(); return sum.Seconds() }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "workqueue_longest_running_processor_seconds", ConstLabels: labels, Help: "How many seconds has the longest running processor for workqueue been running."},
			func() float64 { _, longest := running(); return longest.Seconds() }),
	)
	return &queueMetrics{
		depth: m.depth.WithLabelValues(name), adds: m.adds.WithLabelValues(name), retries: m.retries.WithLabelValues(name),
		waits: m.waits.WithLabelValues(name), works: m.works.WithLabelValues(name),
		idle: m.idle.WithLabelValues(name), busy: m.busy.WithLabelValues(name),
	}
}

func (m *queueMetrics) added() {
	if m != nil {
		m.adds.Inc()
	}
}

func (m *queueMetrics) retried() {
	if m != nil {
		m.retries.Inc()
	}
}

func (m *queueMetrics) idled() {
	if m != nil {
		m.idle.Inc()
	}
}

func (m *queueMetrics) rested() {
	if m != nil {
		m.busy.Inc()
	}
}

func (m *queueMetrics) setDepth(n int) {
	if m != nil {
		m.depth.Set(float64(n))
	}
}

func (m *queueMetrics) waited(d time.Duration) {
	if m != nil {
		m.waits.Observe(d.Seconds())
	}
}

func (m *queueMetrics) worked(d time.Duration) {
	if m != nil {
		m.works.Observe(d.Seconds())
	}
}

// controllerMetrics are those of one controller.
type controllerMetrics struct {
	all  *Metrics
	name string
}

func (m *Metrics) controller(name string) *controllerMetrics {
	if m == nil {
		return nil
	}
	return &controllerMetrics{all: m, name: name}
}

// begin counts a reconcile as running; the returned function ends it with a
// result.
func (m *controllerMetrics) begin() func(result string) {
	if m == nil {
		return func(string) {}
	}
	start := time.Now()
	m.all.active.WithLabelValues(m.name).Inc()
	return func(result string) {
		m.all.active.WithLabelValues(m.name).Dec()
		m.all.seconds.WithLabelValues(m.name).Observe(time.Since(start).Seconds())
		m.all.total.WithLabelValues(m.name, result).Inc()
		if result == "error" {
			m.all.errors.WithLabelValues(m.name).Inc()
		}
	}
}

func (m *controllerMetrics) terminal() {
	if m != nil {
		m.all.terminal.WithLabelValues(m.name).Inc()
	}
}

func (m *controllerMetrics) panicked() {
	if m != nil {
		m.all.panics.WithLabelValues(m.name).Inc()
	}
}
