package page

import (
	"cmp"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// commitRow is a commit in a list.
type commitRow struct {
	Name, Href           string
	Title, Short, SHA    string
	Author               person
	Repository           string
	Phase, State         string
	Reason, Message      string
	When                 moment
	Day                  string // set on the first of a day
	Created, Updated     int32
	Deleted, Findings    int32
	Ready, Objects       int32
	Bar                  bar
	Signature, SignState string
	RolledBack, Current  bool
	Changed              bool // it created, updated or deleted something
}

// bar is the time of each phase of a commit, on a scale on which milliseconds
// and minutes can both be seen. Its width is barWidth.
type bar struct {
	Steps []step
	Total string
}

// step is one phase: from X on, W wide, of barWidth.
type step struct {
	Name, State, Took string
	X, W              int
	At                moment
	Done              bool
}

const barWidth = 160

// stepsOf are the phases that a commit has been through. now ends one that
// goes on.
func stepsOf(s *v1alpha1.CommitStatus, now time.Time) []step {
	if s.SeenTime == nil {
		return nil
	}
	last := s.SeenTime.Time
	var out []step
	add := func(name, state string, t time.Time, done bool) {
		out = append(out, step{Name: name, State: state, Took: took(t.Sub(last)), At: momentOf(t, now), Done: done, W: weight(t.Sub(last))})
		last = t
	}
	if s.RenderedTime != nil {
		add("Rendered", "render", s.RenderedTime.Time, true)
	}
	if s.PlannedTime != nil {
		add("Planned", "plan", s.PlannedTime.Time, true)
	}
	if s.AppliedTime != nil {
		add("Applied", "apply", s.AppliedTime.Time, true)
	}
	switch {
	case s.HealthyTime != nil:
		add("Healthy", stateOK, s.HealthyTime.Time, true)
	case s.FailedTime != nil && s.AppliedTime == nil:
		add("Refused", stateBad, s.FailedTime.Time, true)
	case s.FailedTime != nil:
		add("Failed", stateBad, s.FailedTime.Time, true)
	case s.Phase == v1alpha1.CommitApplied:
		add("Progressing", stateBusy, now, false)
	case s.Phase == v1alpha1.CommitPending || s.Phase == "":
		add("Evaluating", stateWait, now, false)
	}
	return out
}

// weight is the width of a phase before all are known: it grows with the
// logarithm of its time.
func weight(d time.Duration) int { return 8 + int(14*math.Log10(1+float64(max(d.Milliseconds(), 0)))) }

func barOf(s *v1alpha1.CommitStatus, now time.Time) bar {
	steps := stepsOf(s, now)
	sum := 0
	for i := range steps {
		sum += steps[i].W
	}
	x, done := 0, 0
	for i := range steps {
		done += steps[i].W
		end := barWidth * done / sum
		steps[i].X, steps[i].W = x, max(end-x-2, 2)
		x = end
	}
	b := bar{Steps: steps}
	if end := endOf(s); s.SeenTime != nil && !end.IsZero() {
		b.Total = took(end.Sub(s.SeenTime.Time))
	}
	return b
}

// endOf is when the commit reached the phase it is in.
func endOf(s *v1alpha1.CommitStatus) time.Time {
	switch {
	case s.HealthyTime != nil:
		return s.HealthyTime.Time
	case s.FailedTime != nil:
		return s.FailedTime.Time
	case s.AppliedTime != nil && s.Phase != v1alpha1.CommitApplied:
		return s.AppliedTime.Time
	}
	return time.Time{}
}

func rowOf(c *v1alpha1.Commit, now time.Time) commitRow {
	first, _ := title(c.Spec.Message)
	s := &c.Status
	row := commitRow{
		Name: c.Name, Href: hrefOf(commits, keyOf(c)), Title: cut(first, 200), Short: short(c.Spec.SHA), SHA: c.Spec.SHA, Author: personOf(c.Spec.Author),
		Repository: c.Spec.Repository, Phase: string(cmp.Or(s.Phase, v1alpha1.CommitPending)), State: phaseState(s.Phase), Reason: s.Reason, Message: s.Message,
		When: momentOf(seen(c), now), Created: s.Created, Updated: s.Updated, Deleted: s.Deleted, Findings: int32(len(s.Findings)),
		Ready: s.Ready, Objects: s.Objects, Bar: barOf(s, now), RolledBack: s.RolledBackTo != "",
		Changed: s.Created+s.Updated+s.Deleted > 0,
	}
	if s.Signature != nil {
		row.Signature, row.SignState = s.Signature.State, signState(s.Signature.State)
	}
	return row
}

func signState(s string) string {
	switch s {
	case "Verified":
		return stateOK
	case "Bad":
		return stateBad
	case "Unknown":
		return stateWarn
	}
	return stateIdle
}

// seen is when the cluster first saw a commit.
func seen(c *v1alpha1.Commit) time.Time {
	if c.Status.SeenTime != nil {
		return c.Status.SeenTime.Time
	}
	return c.CreationTimestamp.Time
}

// newestFirst orders commits by when they were seen.
func newestFirst(all []*v1alpha1.Commit) []*v1alpha1.Commit {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b *v1alpha1.Commit) int {
		return cmp.Or(seen(b).Compare(seen(a)), strings.Compare(a.Name, b.Name))
	})
	return all
}

// commitQuery is what of the timeline is asked for.
type commitQuery struct {
	Repository, Phase, Text string
	Page                    int
}

// maxText bounds what people may search for.
const maxText = 200

func readCommitQuery(q url.Values) commitQuery {
	return commitQuery{Repository: cut(q.Get("repository"), maxText), Phase: cut(q.Get("phase"), maxText), Text: cut(strings.TrimSpace(q.Get("q")), maxText), Page: pageNumber(q)}
}

func pageNumber(q url.Values) int {
	n, err := strconv.Atoi(q.Get("page"))
	if err != nil || n < 1 || n > 1_000_000 {
		return 1
	}
	return n
}

func (q commitQuery) href(change func(*commitQuery)) string {
	q.Page = 1
	change(&q)
	return link("commits", "repository", q.Repository, "phase", q.Phase, "q", q.Text, "page", pageText(q.Page))
}

func (q commitQuery) matches(c *v1alpha1.Commit) bool {
	return (q.Repository == "" || c.Spec.Repository == q.Repository) && (q.Phase == "" || string(c.Status.Phase) == q.Phase) &&
		(q.Text == "" || contains(c.Spec.Message, q.Text) || contains(c.Spec.Author, q.Text) || strings.HasPrefix(c.Spec.SHA, strings.ToLower(q.Text)))
}

// timelineView is the page of commits.
type timelineView struct {
	Query        commitQuery
	Repositories []chip
	Phases       []chip
	Rows         []commitRow
	Pages        pages
}

// chip is a choice with its number.
type chip struct {
	Label, Href, State string
	Count              int
	On                 bool
}

// commitPhases in the order in which they matter.
var commitPhases = []v1alpha1.CommitPhase{v1alpha1.CommitPending, v1alpha1.CommitApplied, v1alpha1.CommitHealthy, v1alpha1.CommitFailed, v1alpha1.CommitSuperseded}

// perPage is how many rows a page has.
const perPage = 50

func timeline(all []*v1alpha1.Commit, q commitQuery, now time.Time) timelineView {
	v := timelineView{Query: q}
	byRepository, byPhase := map[string]int{}, map[string]int{}
	var found []*v1alpha1.Commit
	for _, c := range newestFirst(all) {
		open := q
		if open.Repository = ""; open.matches(c) {
			byRepository[c.Spec.Repository]++
		}
		open = q
		if open.Phase = ""; open.matches(c) {
			byPhase[string(c.Status.Phase)]++
		}
		if q.matches(c) {
			found = append(found, c)
		}
	}
	v.Repositories = chips(byRepository, q.Repository, func(name string) string {
		return q.href(func(q *commitQuery) { q.Repository = name })
	})
	for _, p := range commitPhases {
		name := string(p)
		c := chip{Label: name, State: phaseState(p), Count: byPhase[name], On: q.Phase == name, Href: q.href(func(q *commitQuery) { q.Phase = toggled(q.Phase, name) })}
		if c.Count > 0 || c.On {
			v.Phases = append(v.Phases, c)
		}
	}
	var part []*v1alpha1.Commit
	part, v.Pages = paged(found, q.Page, perPage, func(n int) string { return q.href(func(q *commitQuery) { q.Page = n }) })
	day := ""
	for _, c := range part {
		row := rowOf(c, now)
		if d := dayOf(seen(c), now); d != day {
			day, row.Day = d, d
		}
		v.Rows = append(v.Rows, row)
	}
	return v
}

// chips are the values that were found, by name, "all" before them.
func chips(counts map[string]int, on string, href func(string) string) []chip {
	names := make([]string, 0, len(counts))
	sum := 0
	for name, n := range counts {
		names = append(names, name)
		sum += n
	}
	slices.Sort(names)
	out := []chip{{Label: "All", Href: href(""), Count: sum, On: on == ""}}
	for _, name := range names {
		out = append(out, chip{Label: name, Href: href(name), Count: counts[name], On: on == name})
	}
	return out
}

// toggled is the choice after a click on one.
func toggled(now, clicked string) string {
	if now == clicked {
		return ""
	}
	return clicked
}

func dayOf(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	switch {
	case t.IsZero():
		return "Unknown"
	case t.Format(time.DateOnly) == now.Format(time.DateOnly):
		return "Today"
	case t.Format(time.DateOnly) == now.AddDate(0, 0, -1).Format(time.DateOnly):
		return "Yesterday"
	case t.Year() == now.Year():
		return t.Format("Monday, 2 January")
	}
	return t.Format("2 January 2006")
}

func commitsPage(w *world, q url.Values) content {
	return content{Title: "Commits", Section: "commits", Live: "commits", Body: timeline(w.commits(), readCommitQuery(q), w.now)}
}
