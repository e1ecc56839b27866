package report

import (
	"slices"
	"strings"

	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// A Commit object tells what was done, within bounds: an object of the API is
// no archive, Git has all of it.
const (
	maxChanges     = 200
	maxFields      = 20
	maxValue       = 200
	maxChangeBytes = 100_000
)

// changes notes what the plan does.
func changes(s *v1alpha1.CommitStatus, p *plan.Plan) {
	size := 0
	for i := range p.Ops {
		if i == maxChanges || size > maxChangeBytes {
			s.ChangesOmitted = int32(len(p.Ops) - i)
			break
		}
		ch := change(&p.Ops[i])
		for _, f := range ch.Fields {
			size += len(f.Path) + len(f.Old) + len(f.New)
		}
		s.Changes = append(s.Changes, ch)
	}
	for _, c := range p.Consequences[:min(len(p.Consequences), maxChanges)] {
		s.Consequences = append(s.Consequences, v1alpha1.CommitConsequence{Object: c.Object, Kind: c.Kind, Message: c.Message})
	}
}

// Continued adds what an earlier step of the same commit did: what waited for
// others enters later.
func Continued(c, before *v1alpha1.Commit) {
	s, b := &c.Status, &before.Status
	again := forget(s, b)
	s.Created, s.Updated, s.Deleted = s.Created+b.Created, s.Updated+b.Updated, s.Deleted+b.Deleted
	s.Unchanged = max(0, s.Unchanged+again-b.Created-b.Updated)
	s.Changes = append(append([]v1alpha1.CommitChange{}, b.Changes...), s.Changes...)
	if n := len(s.Changes) - maxChanges; n > 0 {
		s.Changes, s.ChangesOmitted = s.Changes[:maxChanges], s.ChangesOmitted+int32(n)
	}
	s.ChangesOmitted += b.ChangesOmitted
	s.Consequences = append(slices.DeleteFunc(s.Consequences, func(q v1alpha1.CommitConsequence) bool { return slices.Contains(b.Consequences, q) }), b.Consequences...)
	slices.SortStableFunc(s.Consequences, func(x, y v1alpha1.CommitConsequence) int { return strings.Compare(x.Object, y.Object) })
	s.SeenTime, s.RenderedTime, s.PlannedTime, s.AppliedTime = b.SeenTime, b.RenderedTime, b.PlannedTime, b.AppliedTime
}

// forget takes out of a step what an earlier one has told of already: it
// counted what waited. It returns how many of the declared objects those are.
//
// Of what an earlier step did only the first changes are at hand. Where some
// were left out, all that the step does to objects that it does not declare
// besides is taken for told.
func forget(s, told *v1alpha1.CommitStatus) (again int32) {
	counts := map[string]*int32{string(plan.Create): &s.Created, string(plan.Update): &s.Updated, string(plan.Replace): &s.Updated, string(plan.Delete): &s.Deleted}
	fresh := s.Objects - told.Objects
	s.Changes = slices.DeleteFunc(s.Changes, func(c v1alpha1.CommitChange) bool {
		before := slices.ContainsFunc(told.Changes, func(t v1alpha1.CommitChange) bool { return t.Action == c.Action && t.Object == c.Object })
		if !before && told.ChangesOmitted > 0 {
			before = fresh <= 0
			fresh--
		}
		if n := counts[c.Action]; before && n != nil {
			*n--
			if c.Action != string(plan.Delete) {
				again++
			}
		}
		return before
	})
	return again
}

func change(o *plan.Op) v1alpha1.CommitChange {
	out := v1alpha1.CommitChange{Action: string(o.Action), Object: o.Ref.String(), File: o.File, Line: o.Line}
	for _, d := range o.Diffs[:min(len(o.Diffs), maxFields)] {
		out.Fields = append(out.Fields, v1alpha1.FieldChange{Path: d.Path, Old: shorten(d.Old), New: shorten(d.New)})
	}
	return out
}

func shorten(s string) string {
	if r := []rune(s); len(r) > maxValue {
		return string(r[:maxValue-3]) + "..."
	}
	return s
}
