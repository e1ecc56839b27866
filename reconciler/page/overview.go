package page

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/reconciler/health"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// overviewView is the first page.
type overviewView struct {
	State        string
	Headline     string
	Sub          string
	Total        int
	Health       []count
	Slices       []slice
	Nodes        nodesView
	NodeSum      string
	Repositories []repositoryView
	Attention    []objectRow
	More         int // in need of attention and not shown
	Commits      []commitRow
	Week         [7]day
	Failed       int // commits, in the last day
	Applied      int
	Drifted      []healthView
}

// slice is a part of the ring of healths, as a dash of a circle whose
// circumference is 100.
type slice struct {
	State        string
	Dash, Offset string
}

// day is how many commits came on a day.
type day struct {
	Label   string
	OK, Bad int
	H, BadH int // heights, of 28
	Y, BadY int
	X       int
	Title   string
}

const maxAttention = 12

func overview(declared []item, commits []*v1alpha1.Commit, repositories []repositoryView, nodes nodesView, now time.Time) overviewView {
	v := overviewView{Repositories: repositories, Nodes: nodes, Total: len(declared)}
	var attention []*item
	for i := range declared {
		v.Health = counted(v.Health, declared[i].health.Status)
	}
	for _, s := range healthStates[:3] {
		for i := range declared {
			if declared[i].health.Status == s {
				attention = append(attention, &declared[i])
			}
		}
	}
	for _, it := range attention[:min(len(attention), maxAttention)] {
		v.Attention = append(v.Attention, objectRowOf(it, now, func(*item) []square { return nil }))
	}
	v.More = len(attention) - len(v.Attention)
	v.Slices = ring(v.Health, v.Total)
	for _, c := range newestFirst(commits) {
		if len(v.Commits) < 8 {
			v.Commits = append(v.Commits, rowOf(c, now))
		}
		if now.Sub(seen(c)) < 24*time.Hour {
			if c.Status.Phase == v1alpha1.CommitFailed {
				v.Failed++
			} else if c.Status.AppliedTime != nil {
				v.Applied++
			}
		}
	}
	for i := range repositories {
		v.Drifted = append(v.Drifted, repositories[i].Drifted...)
	}
	ready, all := 0, 0
	for _, c := range nodes.Counts {
		all += c.N
		if c.State != stateBad {
			ready += c.N
		}
	}
	v.NodeSum = strconv.Itoa(ready) + "/" + strconv.Itoa(all)
	v.Week = week(commits, now)
	v.State, v.Headline, v.Sub = headline(v.Health, v.Total, all-ready)
	return v
}

// headline is the state of the cluster in a sentence.
func headline(counts []count, total, nodesDown int) (state, text, sub string) {
	n := map[string]int{}
	for _, c := range counts {
		n[c.Label] = c.N
	}
	bad, missing, busy := n[string(health.Degraded)], n[string(health.Missing)], n[string(health.Progressing)]
	sub = strconv.Itoa(n[string(health.Healthy)]) + " of " + plural(total, "object") + " healthy"
	switch {
	case nodesDown > 0 && bad == 0:
		return stateBad, plural(nodesDown, "node") + " not ready", sub
	case bad > 0:
		return stateBad, plural(bad, "object") + " degraded", sub
	case missing > 0:
		return stateWarn, plural(missing, "object") + " missing", sub
	case busy > 0:
		return stateBusy, plural(busy, "object") + " progressing", sub
	case total == 0:
		return stateIdle, "Nothing declared yet", "push a commit, and the cluster becomes what it says"
	}
	return stateOK, "Everything is as Git says", sub
}

// ring is the counts as parts of a circle.
func ring(counts []count, total int) []slice {
	var out []slice
	at := 0.0
	for i := len(counts) - 1; i >= 0; i-- {
		c := counts[i]
		if c.N == 0 {
			continue
		}
		part := 100 * float64(c.N) / float64(total)
		// A part that nobody could see is drawn as one that can be seen.
		out = append(out, slice{State: c.State, Dash: decimal(max(part-0.8, 0.8)) + " 100", Offset: decimal(-at)})
		at += part
	}
	return out
}

func decimal(f float64) string { return strconv.FormatFloat(f, 'f', 2, 64) }

// week counts the commits of seven days, today last.
func week(commits []*v1alpha1.Commit, now time.Time) [7]day {
	var w [7]day
	today := now.UTC().Truncate(24 * time.Hour)
	top := 1
	for i := range w {
		w[i].Label = today.AddDate(0, 0, i-6).Format("Mon")
		w[i].X = i * 18
	}
	for _, c := range commits {
		i := 6 - int(today.Sub(seen(c).UTC().Truncate(24*time.Hour))/(24*time.Hour))
		if i < 0 || i > 6 {
			continue
		}
		if c.Status.Phase == v1alpha1.CommitFailed {
			w[i].Bad++
		} else {
			w[i].OK++
		}
		top = max(top, w[i].OK+w[i].Bad)
	}
	for i := range w {
		d := &w[i]
		d.H, d.BadH = 28*d.OK/top, 28*d.Bad/top
		if d.Bad > 0 {
			d.BadH = max(d.BadH, 2)
		}
		d.Y, d.BadY = 30-d.H, 30-d.H-d.BadH
		d.Title = d.Label + ": " + plural(d.OK+d.Bad, "commit") + ", " + strconv.Itoa(d.Bad) + " failed"
	}
	return w
}

func overviewPage(w *world) content {
	declared := w.declared()
	nodes := nodesOf(listOf[*corev1.Node](w, ""), func(string) ([]*corev1.Pod, []square) { return nil, nil }, w.now)
	return content{Title: "Overview", Section: "overview", Live: "commits,repositories,objects,nodes",
		Body: overview(declared, w.commits(), w.repositories(declared), nodes, w.now)}
}
