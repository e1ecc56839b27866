package report

import (
	"time"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// Reasons of phases that others decide by.
const (
	ReasonPartly    = "PartlyApplied"
	ReasonLate      = "NotHealthyInTime"
	ReasonStalled   = "Stalled"
	ReasonNoWayBack = "NotRolledBack"
)

// Unhealthy says that a commit was applied, and failed by what became of its
// objects.
func Unhealthy(c *v1alpha1.Commit) bool {
	return c.Status.Phase == v1alpha1.CommitFailed && (c.Status.Reason == ReasonLate || c.Status.Reason == ReasonStalled)
}

// Health says how many of the declared objects are healthy.
type Health struct {
	Ready, Total int
	Unhealthy    []v1alpha1.ObjectHealth
	// Stalled is an object that no time mends, Moving how many are on their way.
	Stalled *v1alpha1.ObjectHealth
	Moving  int
	// Waiting is what objects wait for that are not applied yet; "": nothing.
	Waiting string
}

// Settled is how old an applied commit is before objects are believed that they
// are stalled: their controllers have seen what is new by then.
const Settled = 10 * time.Second

// stalled says that waiting is in vain: some object is stalled, and no other is
// on its way any more, so that the commit fails with all that it has to tell.
func stalled(s *v1alpha1.CommitStatus, h *Health, now time.Time) bool {
	return h.Stalled != nil && h.Moving == 0 && s.AppliedTime != nil && now.Sub(s.AppliedTime.Time) >= Settled
}

// Progress moves an applied commit on: to Healthy when all objects are, to
// Failed when that takes longer than it may, or cannot be any more. It says
// whether anything that people see has changed.
func Progress(c *v1alpha1.Commit, h Health, now time.Time, timeout time.Duration) bool {
	before := c.Status.DeepCopy()
	s := &c.Status
	s.Ready = int32(h.Ready)
	s.Unhealthy = h.Unhealthy
	switch {
	case s.Reason == ReasonPartly, s.RolledBackTo != "":
		// Nothing that happens to the objects makes the commit well.
	case h.Ready == h.Total && h.Waiting == "":
		s.Phase, s.Reason, s.Message = v1alpha1.CommitHealthy, "Healthy", "all "+plural(h.Total, "object")+" are healthy"
		if s.HealthyTime == nil {
			s.HealthyTime = micro(now)
		}
	case s.Phase == v1alpha1.CommitHealthy:
		// It was reached once; what breaks later is not the commit's doing.
		s.Reason, s.Message = "Degraded", plural(h.Total-h.Ready, "object")+" not healthy any more"
	case stalled(s, &h, now):
		if s.Phase != v1alpha1.CommitFailed {
			s.Phase, s.Reason, s.FailedTime = v1alpha1.CommitFailed, ReasonStalled, micro(now)
		}
		s.Message = h.Stalled.Object + " does not become healthy: " + h.Stalled.Message
	case s.AppliedTime != nil && now.Sub(s.AppliedTime.Time) >= timeout:
		if s.Phase != v1alpha1.CommitFailed {
			s.Reason = ReasonLate
		}
		s.Phase = v1alpha1.CommitFailed
		s.Message = plural(h.Total-h.Ready, "object") + " not healthy after " + timeout.String()
		if s.FailedTime == nil {
			s.FailedTime = micro(now)
		}
	default:
		s.Message = plural(h.Total-h.Ready, "object") + " not healthy yet"
		if h.Waiting != "" {
			s.Message += "; waiting for " + h.Waiting
		}
	}
	return !equalStatus(before, s)
}
