package receive

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics is how the mirrors of a remote are doing: read when it is asked for.
type Metrics struct{ Remote *Remote }

var _ prometheus.Collector = Metrics{}

func mirrorDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("writ_mirror_"+name, help, []string{"repository", "direction", "url"}, nil)
}

var (
	successDesc  = mirrorDesc("last_success_timestamp_seconds", "When the mirror was last found or brought in step.")
	inStepDesc   = mirrorDesc("in_step_timestamp_seconds", "Since when both repositories have the same refs.")
	failingDesc  = mirrorDesc("failing", "Whether the last exchange failed.")
	failuresDesc = mirrorDesc("failures_total", "Exchanges that failed.")
)

// Describe implements prometheus.Collector.
func (Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{successDesc, inStepDesc, failingDesc, failuresDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c.Remote.kept() {
		m.mu.Lock()
		s, failed := m.status, m.failed
		m.mu.Unlock()
		direction := map[bool]string{true: "Pull", false: "Push"}[s.Pull]
		tell := func(d *prometheus.Desc, kind prometheus.ValueType, v float64) {
			ch <- prometheus.MustNewConstMetric(d, kind, v, s.Repository, direction, s.URL)
		}
		for d, at := range map[*prometheus.Desc]time.Time{successDesc: s.Looked, inStepDesc: s.InStep} {
			if !at.IsZero() {
				tell(d, prometheus.GaugeValue, float64(at.UnixMicro())/1e6)
			}
		}
		failing := 0.0
		if !s.Failing.IsZero() {
			failing = 1
		}
		tell(failingDesc, prometheus.GaugeValue, failing)
		tell(failuresDesc, prometheus.CounterValue, float64(failed))
	}
}
