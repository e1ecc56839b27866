package reconciler

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// metrics are the figures of one repository. All reconcilers of a process
// share the collectors; each has its own value of the label repository.
type metrics struct {
	commits     *prometheus.CounterVec // by result
	findings    *prometheus.CounterVec // by rule
	stages      prometheus.ObserverVec // by stage
	apply       prometheus.Observer
	healthy     prometheus.Observer
	declared    prometheus.Gauge
	unready     prometheus.Gauge
	drift       prometheus.Counter
	fetchErrors prometheus.Counter
	idle        prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, repository string) *metrics {
	one, l := []string{"repository"}, prometheus.Labels{"repository": repository}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return shared(reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append(labels, one...))).MustCurryWith(l)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return shared(reg, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, one)).With(l)
	}
	histogram := func(name, help string, from float64, n int, labels ...string) prometheus.ObserverVec {
		return shared(reg, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(from, 2, n)},
			append(labels, one...))).MustCurryWith(l)
	}
	return &metrics{
		commits:  counter("writ_commits_total", "Commits by what became of them.", "result"),
		findings: counter("writ_findings_total", "What commits were refused for, by rule.", "rule"),
		stages: histogram("writ_commit_stage_seconds", "Time of a commit in each stage: push (from the commit to the moment it is seen), plan, apply, converge.",
			0.001, 20, "stage"),
		apply:       histogram("writ_commit_apply_seconds", "Time from seeing a commit to its place in the store.", 0.01, 12).WithLabelValues(),
		healthy:     histogram("writ_commit_healthy_seconds", "Time from seeing a commit to all its objects healthy.", 0.1, 14).WithLabelValues(),
		declared:    gauge("writ_declared_objects", "Objects that the applied commit declares."),
		unready:     gauge("writ_unhealthy_objects", "Declared objects that are not healthy."),
		drift:       counter("writ_drift_healed_total", "Objects that were put back to what Git declares.").WithLabelValues(),
		fetchErrors: counter("writ_fetch_errors_total", "Failures to read the repository.").WithLabelValues(),
		idle:        counter("writ_repository_idle_wakes_total", "Wakes held back because the loop of the repository asked for the next round at once, again and again, without any effect.").WithLabelValues(),
	}
}

// shared registers a collector, or returns the one that another reconciler of
// the process has registered. Two different ones of one name are a mistake of
// the program, as MustRegister has it.
func shared[T prometheus.Collector](reg prometheus.Registerer, c T) T {
	if reg == nil {
		return c
	}
	var twice prometheus.AlreadyRegisteredError
	if err := reg.Register(c); errors.As(err, &twice) {
		return twice.ExistingCollector.(T)
	} else if err != nil {
		panic(err)
	}
	return c
}

// refused counts a commit that does not enter, and why.
func (m *metrics) refused(findings []v1alpha1.Finding) {
	m.commits.WithLabelValues("refused").Inc()
	for i := range findings {
		m.findings.WithLabelValues(findings[i].Rule).Inc()
	}
}

// maxPush is how old a commit may be to say when it was pushed.
const maxPush = time.Hour

// became counts the times of a commit that has become healthy.
func (m *metrics) became(c *v1alpha1.Commit) {
	s := &c.Status
	m.commits.WithLabelValues("healthy").Inc()
	if s.SeenTime == nil {
		return
	}
	if took := s.SeenTime.Sub(c.Spec.Time.Time); took >= 0 && took <= maxPush {
		m.stages.WithLabelValues("push").Observe(took.Seconds())
	}
	at := s.SeenTime
	for _, stage := range []struct {
		name string
		end  *metav1.MicroTime
	}{{"render", s.RenderedTime}, {"plan", s.PlannedTime}, {"apply", s.AppliedTime}, {"converge", s.HealthyTime}} {
		if stage.end == nil {
			continue
		}
		m.stages.WithLabelValues(stage.name).Observe(max(0, stage.end.Sub(at.Time).Seconds()))
		at = stage.end
	}
	if s.HealthyTime != nil {
		m.healthy.Observe(max(0, s.HealthyTime.Sub(s.SeenTime.Time).Seconds()))
	}
}
