package reconciler

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// State is what the Repository and Commit objects say, as metrics: read when
// they are asked for. It is registered once for a process.
type State struct{ Cache client.Cache }

var _ prometheus.Collector = State{}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{"repository"}, labels...), nil)
}

var (
	infoDesc      = desc("writ_repository_info", "What is followed and in force: always 1.", "branch", "head", "applied", "healthy")
	readyDesc     = desc("writ_repository_ready", "Whether the remote answers and its head is applied.", "reason")
	suspendedDesc = desc("writ_repository_suspended", "Whether the repository is not read for now.")
	appliedDesc   = desc("writ_repository_last_applied_timestamp_seconds", "When the newest commit entered the cluster.")
	healthyDesc   = desc("writ_repository_last_healthy_timestamp_seconds", "When a commit last became healthy.")
	driftedDesc   = desc("writ_repository_drifted_objects", "Objects that last differed from Git, at most 20.")
	commitsDesc   = desc("writ_repository_commits", "Commits that are remembered, by phase.", "phase")
)

// Describe implements prometheus.Collector.
func (State) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{infoDesc, readyDesc, suspendedDesc, appliedDesc, healthyDesc, driftedDesc, commitsDesc} {
		ch <- d
	}
}

// phases are those that every repository has a figure for.
var phases = []v1alpha1.CommitPhase{v1alpha1.CommitPending, v1alpha1.CommitApplied, v1alpha1.CommitHealthy, v1alpha1.CommitFailed, v1alpha1.CommitSuperseded}

// history is what the Commit objects of a repository say.
type history struct {
	phases           map[v1alpha1.CommitPhase]int
	applied, healthy time.Time
}

// Collect implements prometheus.Collector.
func (s State) Collect(ch chan<- prometheus.Metric) {
	past := map[string]*history{}
	for _, c := range client.CachedList[*v1alpha1.Commit](s.Cache, "") {
		h := past[c.Spec.Repository]
		if h == nil {
			h = &history{phases: map[v1alpha1.CommitPhase]int{}}
			past[c.Spec.Repository] = h
		}
		h.phases[c.Status.Phase]++
		h.applied, h.healthy = latest(h.applied, c.Status.AppliedTime), latest(h.healthy, c.Status.HealthyTime)
	}
	for _, r := range client.CachedList[*v1alpha1.Repository](s.Cache, "") {
		h := past[r.Name]
		if h == nil {
			h = &history{}
		}
		collect(ch, r, h)
	}
}

// collect tells of one repository.
func collect(ch chan<- prometheus.Metric, r *v1alpha1.Repository, h *history) {
	tell := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{r.Name}, labels...)...)
	}
	st := &r.Status
	tell(infoDesc, 1, r.Spec.Branch, st.Head, st.Applied, st.Healthy)
	if c := meta.FindStatusCondition(st.Conditions, "Ready"); c != nil {
		tell(readyDesc, truth(c.Status == metav1.ConditionTrue), c.Reason)
	}
	tell(suspendedDesc, truth(r.Spec.Suspend))
	tell(driftedDesc, float64(len(st.Drifted)))
	for d, at := range map[*prometheus.Desc]time.Time{appliedDesc: h.applied, healthyDesc: h.healthy} {
		if !at.IsZero() {
			tell(d, float64(at.UnixMicro())/1e6)
		}
	}
	for _, p := range phases {
		tell(commitsDesc, float64(h.phases[p]), string(p))
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func latest(t time.Time, m *metav1.MicroTime) time.Time {
	if m != nil && m.After(t) {
		return m.Time
	}
	return t
}
