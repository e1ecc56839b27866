package notify

import "github.com/prometheus/client_golang/prometheus"

// metrics are the notifier's figures.
type metrics struct {
	sent   *prometheus.CounterVec
	queued *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	labels := []string{"repository", "notification", "type"}
	m := &metrics{
		sent: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "writ_notifications_total",
			Help: "Calls that tell of commits, by what came of them: sent, retried, dropped."}, append(labels, "result")),
		queued: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "writ_notifications_queued",
			Help: "Messages that wait to be sent."}, labels),
	}
	if reg != nil {
		reg.MustRegister(m.sent, m.queued)
	}
	return m
}
