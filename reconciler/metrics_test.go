package reconciler

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema/v1alpha1"
)

func micro(seconds float64) *metav1.MicroTime {
	t := metav1.NewMicroTime(time.UnixMicro(int64(seconds * 1e6)))
	return &t
}

// Several reconcilers, and one that is opened again, share a registry.
func TestMetricsShared(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	for _, name := range []string{"shop", "infra", "shop"} {
		m := newMetrics(reg, name)
		m.refused([]v1alpha1.Finding{{Rule: "UnknownField"}, {Rule: "UnknownField"}, {Rule: "Immutable"}})
		m.drift.Inc()
		m.declared.Set(3)
	}
	if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP writ_commits_total Commits by what became of them.
# TYPE writ_commits_total counter
writ_commits_total{repository="infra",result="refused"} 1
writ_commits_total{repository="shop",result="refused"} 2
# HELP writ_declared_objects Objects that the applied commit declares.
# TYPE writ_declared_objects gauge
writ_declared_objects{repository="infra"} 3
writ_declared_objects{repository="shop"} 3
# HELP writ_drift_healed_total Objects that were put back to what Git declares.
# TYPE writ_drift_healed_total counter
writ_drift_healed_total{repository="infra"} 1
writ_drift_healed_total{repository="shop"} 2
# HELP writ_findings_total What commits were refused for, by rule.
# TYPE writ_findings_total counter
writ_findings_total{repository="infra",rule="Immutable"} 1
writ_findings_total{repository="infra",rule="UnknownField"} 2
writ_findings_total{repository="shop",rule="Immutable"} 2
writ_findings_total{repository="shop",rule="UnknownField"} 4
`), "writ_commits_total", "writ_declared_objects", "writ_drift_healed_total", "writ_findings_total"); err != nil {
		t.Error(err)
	}
	newMetrics(nil, "shop").refused([]v1alpha1.Finding{{Rule: "X"}})
}

func TestMetricsStages(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := newMetrics(reg, "shop")
	c := &v1alpha1.Commit{Spec: v1alpha1.CommitSpec{Time: metav1.Unix(998, 0)},
		Status: v1alpha1.CommitStatus{SeenTime: micro(1000), PlannedTime: micro(1000.25), AppliedTime: micro(1000.5), HealthyTime: micro(1004.5)}}
	m.became(c)
	c.Spec.Time = metav1.Unix(-9000, 0) // long before its push
	m.became(c)
	m.became(&v1alpha1.Commit{})
	want := map[string]float64{"push": 2, "plan": 0.5, "apply": 0.5, "converge": 8}
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range all {
		for _, s := range f.GetMetric() {
			for _, l := range s.GetLabel() {
				if f.GetName() == "writ_commit_stage_seconds" && l.GetName() == "stage" {
					got[l.GetValue()] = s.GetHistogram().GetSampleSum()
				}
			}
			if f.GetName() == "writ_commit_healthy_seconds" && s.GetHistogram().GetSampleSum() != 9 {
				t.Errorf("healthy: %v", s)
			}
		}
	}
	for stage, sum := range want {
		if got[stage] != sum {
			t.Errorf("%s: %v, want %v", stage, got[stage], sum)
		}
	}
	if len(got) != len(want) {
		t.Errorf("stages: %v", got)
	}
}

func TestState(t *testing.T) {
	repo := &v1alpha1.Repository{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: v1alpha1.RepositorySpec{Branch: "main", Suspend: true},
		Status: v1alpha1.RepositoryStatus{Head: "h", Applied: "a", Healthy: "g", Drifted: make([]v1alpha1.ObjectHealth, 2),
			Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Refused"}}}}
	commit := func(name string, s v1alpha1.CommitStatus) *v1alpha1.Commit {
		return &v1alpha1.Commit{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.CommitSpec{Repository: "shop"}, Status: s}
	}
	c := client.NewFake(repo, &v1alpha1.Repository{ObjectMeta: metav1.ObjectMeta{Name: "new"}},
		commit("a", v1alpha1.CommitStatus{Phase: v1alpha1.CommitHealthy, AppliedTime: micro(10), HealthyTime: micro(12.5)}),
		commit("b", v1alpha1.CommitStatus{Phase: v1alpha1.CommitFailed, AppliedTime: micro(20)}))
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(State{Cache: c.Cache()})
	if err := testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP writ_repository_commits Commits that are remembered, by phase.
# TYPE writ_repository_commits gauge
writ_repository_commits{phase="Applied",repository="new"} 0
writ_repository_commits{phase="Applied",repository="shop"} 0
writ_repository_commits{phase="Failed",repository="new"} 0
writ_repository_commits{phase="Failed",repository="shop"} 1
writ_repository_commits{phase="Healthy",repository="new"} 0
writ_repository_commits{phase="Healthy",repository="shop"} 1
writ_repository_commits{phase="Pending",repository="new"} 0
writ_repository_commits{phase="Pending",repository="shop"} 0
writ_repository_commits{phase="Superseded",repository="new"} 0
writ_repository_commits{phase="Superseded",repository="shop"} 0
# HELP writ_repository_drifted_objects Objects that last differed from Git, at most 20.
# TYPE writ_repository_drifted_objects gauge
writ_repository_drifted_objects{repository="new"} 0
writ_repository_drifted_objects{repository="shop"} 2
# HELP writ_repository_info What is followed and in force: always 1.
# TYPE writ_repository_info gauge
writ_repository_info{applied="",branch="",head="",healthy="",repository="new"} 1
writ_repository_info{applied="a",branch="main",head="h",healthy="g",repository="shop"} 1
# HELP writ_repository_last_applied_timestamp_seconds When the newest commit entered the cluster.
# TYPE writ_repository_last_applied_timestamp_seconds gauge
writ_repository_last_applied_timestamp_seconds{repository="shop"} 20
# HELP writ_repository_last_healthy_timestamp_seconds When a commit last became healthy.
# TYPE writ_repository_last_healthy_timestamp_seconds gauge
writ_repository_last_healthy_timestamp_seconds{repository="shop"} 12.5
# HELP writ_repository_ready Whether the remote answers and its head is applied.
# TYPE writ_repository_ready gauge
writ_repository_ready{reason="Refused",repository="shop"} 0
# HELP writ_repository_suspended Whether the repository is not read for now.
# TYPE writ_repository_suspended gauge
writ_repository_suspended{repository="new"} 0
writ_repository_suspended{repository="shop"} 1
`)); err != nil {
		t.Error(err)
	}
}
