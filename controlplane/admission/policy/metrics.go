package policy

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// metrics have upstream's names and labels.
type metrics struct {
	checks  *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	labels := []string{"policy", "policy_binding", "error_type", "enforcement_action"}
	m := &metrics{
		checks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_validating_admission_policy_check_total", Help: "Validation admission policy check total, labeled by policy and further identified by binding and enforcement action taken.",
		}, labels),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_validating_admission_policy_check_duration_seconds", Help: "Validation admission latency for individual validation expressions in seconds, labeled by policy and further including binding and enforcement action taken.",
			Buckets: []float64{0.0000005, 0.001, 0.01, 0.1, 1.0},
		}, labels),
	}
	if reg != nil {
		reg.MustRegister(m.checks, m.seconds)
	}
	return m
}

func (m *metrics) observe(policy, binding, action string, d *decision) {
	why := errorType(d)
	m.checks.WithLabelValues(policy, binding, why, action).Inc()
	m.seconds.WithLabelValues(policy, binding, why, action).Observe(d.took.Seconds())
}

func errorType(d *decision) string {
	switch {
	case !d.failed:
		return "no_error"
	case errors.Is(d.err, apiservercel.ErrCompilation):
		return "compile_error"
	case errors.Is(d.err, apiservercel.ErrOutOfBudget):
		return "out_of_budget"
	}
	return "invalid_error"
}
