package notify

import (
	"slices"
	"strconv"
	"strings"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// Mark is a state of a commit that somebody is told of once. Seen tells the
// times apart that a commit comes in, as after a reset of the branch, in
// microseconds since 1970.
type Mark struct {
	Phase      v1alpha1.CommitPhase
	RolledBack bool
	Seen       int64
}

// MarkOf is the state that a commit is in.
func MarkOf(c *v1alpha1.Commit) Mark {
	phase := c.Status.Phase
	if phase == "" {
		phase = v1alpha1.CommitPending
	}
	return Mark{Phase: phase, RolledBack: c.Status.RolledBackTo != "", Seen: seen(c)}
}

// seen is when a commit came in last.
func seen(c *v1alpha1.Commit) int64 {
	if c.Status.SeenTime != nil {
		return c.Status.SeenTime.UnixMicro()
	}
	return c.CreationTimestamp.UnixMicro()
}

// String is the form in which marks are stored: "Failed+RolledBack@1763790000000000".
func (m Mark) String() string {
	s := string(m.Phase)
	if m.RolledBack {
		s += rolledBack
	}
	return s + "@" + strconv.FormatInt(m.Seen, 10)
}

const rolledBack = "+RolledBack"

// ParseMark reads a stored mark; what is none is the zero Mark, which nobody
// was told of.
func ParseMark(s string) Mark {
	phase, at, ok := strings.Cut(s, "@")
	seen, err := strconv.ParseInt(at, 10, 64)
	if !ok || err != nil {
		return Mark{}
	}
	phase, back := strings.CutSuffix(phase, rolledBack)
	return Mark{Phase: v1alpha1.CommitPhase(phase), RolledBack: back, Seen: seen}
}

// Message is one thing to tell one receiver.
type Message struct {
	Notification string
	Commit       *v1alpha1.Commit
	Mark         Mark
	// With is the commit that Commit came in with, where it has no object of
	// its own; nil: it has.
	With *v1alpha1.Commit
}

// about is the commit whose object and page the message is about.
func (m *Message) about() *v1alpha1.Commit {
	if m.With != nil {
		return m.With
	}
	return m.Commit
}

// Decide says what is to be told of a commit: one Message at most for each
// notification. told are the states that were told of already or wait to be,
// by the name of the notification.
//
// A forge that was told that a commit is under way is told its end as well,
// even if the phase is not asked for: a pipeline waits for it.
func Decide(c *v1alpha1.Commit, notifications []v1alpha1.Notification, told map[string]Mark) []Message {
	now := MarkOf(c)
	var out []Message
	for i := range notifications {
		n := &notifications[i]
		before := told[n.Name]
		if before == now {
			continue
		}
		owed := isForge(n.Type) && final(now.Phase) && before.Phase != "" && !final(before.Phase)
		if owed || wanted(n, now.Phase) {
			out = append(out, Message{Notification: n.Name, Commit: c, Mark: now})
		}
	}
	return out
}

func wanted(n *v1alpha1.Notification, p v1alpha1.CommitPhase) bool {
	if len(n.Phases) == 0 {
		return p != v1alpha1.CommitPending
	}
	return slices.Contains(n.Phases, p)
}

// final says whether a commit that nothing else happens to stays in a phase.
func final(p v1alpha1.CommitPhase) bool {
	return p != v1alpha1.CommitPending && p != v1alpha1.CommitApplied
}

// gone is what is left to tell of a commit whose object was deleted: that it
// has ended.
func gone(c *v1alpha1.Commit) *v1alpha1.Commit {
	if final(MarkOf(c).Phase) {
		return c
	}
	c = c.DeepCopy()
	c.Status.Phase, c.Status.Reason, c.Status.Message = v1alpha1.CommitSuperseded, "Forgotten", "the commit is not followed any more"
	return c
}

// begin is the moment from which on commits are told of to a receiver that is
// new: it hears of the newest commit and of those that have not ended, and not
// of the history. all are the commits of the repository.
func begin(all []*v1alpha1.Commit) int64 {
	var newest, unfinished int64
	for _, c := range all {
		newest = max(newest, seen(c))
		if at := seen(c); !final(MarkOf(c).Phase) && (unfinished == 0 || at < unfinished) {
			unfinished = at
		}
	}
	if unfinished == 0 {
		return newest
	}
	return min(newest, unfinished)
}
