package fairness

import (
	"math"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
)

// share is how many seats a priority level may have.
type share struct {
	nominal int // its own
	kept    int // of these, how many are never lent
	most    int // with all that it may borrow
}

// shares divides seats among the limited levels by their nominal shares.
func shares(levels []*flowcontrolv1.PriorityLevelConfiguration, seats int) map[string]share {
	sum := 0.0
	for _, l := range levels {
		sum += float64(nominalShares(l))
	}
	out := make(map[string]share, len(levels))
	for _, l := range levels {
		limited := l.Spec.Limited
		if limited == nil {
			continue
		}
		s := share{most: seats}
		if sum > 0 {
			s.nominal = int(math.Ceil(float64(seats) * float64(nominalShares(l)) / sum))
		}
		lent := 0
		if p := limited.LendablePercent; p != nil {
			lent = int(math.Round(float64(s.nominal) * float64(*p) / 100))
		}
		s.kept = s.nominal - lent
		if p := limited.BorrowingLimitPercent; p != nil {
			s.most = min(seats, s.nominal+int(math.Round(float64(s.nominal)*float64(*p)/100)))
		}
		out[l.Name] = s
	}
	return out
}

// defaultShares are those of a level that does not say.
const defaultShares = 30

func nominalShares(l *flowcontrolv1.PriorityLevelConfiguration) int32 {
	switch {
	case l.Spec.Limited == nil:
		return 0
	case l.Spec.Limited.NominalConcurrencyShares == nil:
		return defaultShares
	}
	return *l.Spec.Limited.NominalConcurrencyShares
}

// mayRun says whether a level that has running seats may take one more.
// reserved is what all levels together hold or keep for themselves: the sum of
// max(running, kept). Below its kept seats a level needs nobody's leave.
func (s share) mayRun(running, reserved, seats int) bool {
	if running < s.kept {
		return true
	}
	return running < s.most && reserved < seats
}
