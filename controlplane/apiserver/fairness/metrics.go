package fairness

import "github.com/prometheus/client_golang/prometheus"

// The metrics of Kubernetes that tell how the seats are used.
var (
	byLevel  = []string{"priority_level"}
	nominal  = prometheus.NewDesc("apiserver_flowcontrol_nominal_limit_seats", "Nominal number of execution seats configured for each priority level", byLevel, nil)
	running  = prometheus.NewDesc("apiserver_flowcontrol_current_executing_requests", "Number of requests in initial (for a WATCH) or any (for a non-WATCH) execution stage in the API Priority and Fairness subsystem", byLevel, nil)
	seatsNow = prometheus.NewDesc("apiserver_flowcontrol_current_executing_seats", "Concurrency (number of seats) occupied by the currently executing (initial stage for a WATCH, any stage otherwise) requests in the API Priority and Fairness subsystem", byLevel, nil)
	waiting  = prometheus.NewDesc("apiserver_flowcontrol_current_inqueue_requests", "Number of requests currently pending in queues of the API Priority and Fairness subsystem", byLevel, nil)
	served   = prometheus.NewDesc("apiserver_flowcontrol_dispatched_requests_total", "Number of requests executed by API Priority and Fairness subsystem", byLevel, nil)
	rejected = prometheus.NewDesc("apiserver_flowcontrol_rejected_requests_total", "Number of requests rejected by API Priority and Fairness subsystem", []string{"priority_level", "reason"}, nil)
)

// Describe implements prometheus.Collector.
func (l *Limiter) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{nominal, running, seatsNow, waiting, served, rejected} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (l *Limiter) Collect(ch chan<- prometheus.Metric) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, lv := range l.levels {
		gauge := func(d *prometheus.Desc, v int) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), name)
		}
		gauge(nominal, lv.nominal)
		gauge(running, lv.running)
		gauge(seatsNow, lv.running)
		gauge(waiting, lv.queue.size)
		ch <- prometheus.MustNewConstMetric(served, prometheus.CounterValue, float64(lv.served), name)
		for why, n := range lv.rejected {
			ch <- prometheus.MustNewConstMetric(rejected, prometheus.CounterValue, float64(n), name, why)
		}
	}
}
