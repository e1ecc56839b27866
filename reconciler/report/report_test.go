package report

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema/v1alpha1"
)

var start = time.Unix(1700000000, 0)

func commit(i int, phase v1alpha1.CommitPhase) *v1alpha1.Commit {
	c := NewCommit(v1alpha1.CommitSpec{Repository: "cluster", SHA: fmt.Sprintf("%040d", i)}, start.Add(time.Duration(i)*time.Second))
	c.Name = fmt.Sprintf("cluster-%d", i)
	c.Status.Phase = phase
	return c
}

// TestClose: what was on its way is superseded, what is done stays, and the
// history is bounded.
func TestClose(t *testing.T) {
	var all []*v1alpha1.Commit
	for i := range Kept + 20 {
		all = append(all, commit(i, []v1alpha1.CommitPhase{v1alpha1.CommitHealthy, v1alpha1.CommitApplied, v1alpha1.CommitFailed, v1alpha1.CommitPending}[i%4]))
	}
	newest := all[len(all)-1]
	deleted, superseded := 0, 0
	for _, op := range Close(all, newest.Name) {
		var i int
		fmt.Sscanf(op.Key.Name, "cluster-%d", &i)
		switch {
		case op.Key.Name == newest.Name:
			t.Error("the newest is touched")
		case op.Verb == client.VerbDelete:
			if deleted++; i >= 20 {
				t.Errorf("commit %d is not among the oldest", i)
			}
		default:
			superseded++
			if c := op.Object.(*v1alpha1.Commit); c.Status.Phase != v1alpha1.CommitSuperseded || i%2 == 0 {
				t.Errorf("commit %d becomes %s", i, c.Status.Phase)
			}
		}
	}
	if deleted != 20 || superseded == 0 {
		t.Errorf("%d deleted, %d superseded", deleted, superseded)
	}
}

func TestProgress(t *testing.T) {
	c := commit(0, v1alpha1.CommitApplied)
	at := metav1.NewMicroTime(start)
	c.Status.AppliedTime = &at
	step := func(ready int, after time.Duration, changed bool, phase v1alpha1.CommitPhase) {
		t.Helper()
		if got := Progress(c, Health{Ready: ready, Total: 2}, start.Add(after), time.Minute); got != changed || c.Status.Phase != phase {
			t.Errorf("after %s with %d ready: changed %v, %s", after, ready, got, c.Status.Phase)
		}
	}
	step(1, time.Second, true, v1alpha1.CommitApplied)
	step(1, 2*time.Second, false, v1alpha1.CommitApplied)
	step(1, time.Minute, true, v1alpha1.CommitFailed)
	step(2, 2*time.Minute, true, v1alpha1.CommitHealthy)
	healthy := *c.Status.HealthyTime
	step(1, 3*time.Minute, true, v1alpha1.CommitHealthy)
	step(2, 4*time.Minute, true, v1alpha1.CommitHealthy)
	if *c.Status.HealthyTime != healthy {
		t.Error("the time of the first health is lost")
	}
}

// TestProgressStalled: what no time mends fails a commit as soon as nothing is on
// its way any more, and as soon as it can be believed.
func TestProgressStalled(t *testing.T) {
	stuck := &v1alpha1.ObjectHealth{Object: "NodePool/servers", Message: "writ-2 failed"}
	for name, c := range map[string]struct {
		health Health
		after  time.Duration
		phase  v1alpha1.CommitPhase
		reason string
	}{
		"stalled":              {Health{Total: 3, Ready: 2, Stalled: stuck}, Settled, v1alpha1.CommitFailed, ReasonStalled},
		"too early to say":     {Health{Total: 3, Ready: 2, Stalled: stuck}, Settled - 1, v1alpha1.CommitApplied, ""},
		"another moves":        {Health{Total: 3, Ready: 1, Stalled: stuck, Moving: 1}, time.Minute - 1, v1alpha1.CommitApplied, ""},
		"another moved":        {Health{Total: 3, Ready: 1, Stalled: stuck, Moving: 1}, time.Minute, v1alpha1.CommitFailed, ReasonLate},
		"others wait for it":   {Health{Total: 3, Ready: 1, Stalled: stuck, Waiting: "wave 1"}, Settled, v1alpha1.CommitFailed, ReasonStalled},
		"another is only sick": {Health{Total: 3, Ready: 1}, Settled, v1alpha1.CommitApplied, ""},
	} {
		got := commit(0, v1alpha1.CommitApplied)
		at := metav1.NewMicroTime(start)
		got.Status.AppliedTime, got.Status.Reason = &at, ""
		Progress(got, c.health, start.Add(c.after), time.Minute)
		if got.Status.Phase != c.phase || got.Status.Reason != c.reason {
			t.Errorf("%s: %s %s: %s", name, got.Status.Phase, got.Status.Reason, got.Status.Message)
		}
	}
}

func TestFindingText(t *testing.T) {
	for want, f := range map[string]v1alpha1.Finding{
		"a.yaml:3:7: spec.x: no such field (did you mean y?)": {File: "a.yaml", Line: 3, Column: 7, Field: "spec.x", Message: "no such field", Hint: "did you mean y?"},
		"a.yaml: too large":              {File: "a.yaml", Message: "too large"},
		"the repository is empty":        {Message: "the repository is empty"},
		"a.yaml:1:1: spec.x is required": {File: "a.yaml", Line: 1, Column: 1, Field: "spec.x", Message: "spec.x is required"},
	} {
		if got := FindingText(f); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
