package reconciler

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// A commit whose deadline has passed, and whose status could not be written,
// is looked at when the write is due again, not all the time until then.
func TestPassedDeadlineDoesNotSpin(t *testing.T) {
	now := time.Now()
	applied := metav1.NewMicroTime(now.Add(-24 * time.Hour))
	r := New(Config{Client: client.NewFake()})
	r.commit = &v1alpha1.Commit{Status: v1alpha1.CommitStatus{Phase: v1alpha1.CommitApplied, AppliedTime: &applied}}
	r.status = now.Add(minRetry)
	if got := r.wait(now); got != minRetry {
		t.Errorf("next round in %v, want %v", got, minRetry)
	}
	r.status = time.Time{}
	if got := r.wait(now); got != time.Millisecond || r.status.IsZero() {
		t.Errorf("a deadline that nobody has looked at: in %v, status at %v", got, r.status)
	}
}
