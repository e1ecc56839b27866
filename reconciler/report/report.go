// Package report tells how far commits have come: Commit objects with their
// phases, findings and times, the status of the Repository, and events.
//
// It watches nothing. It writes Commit objects, the status of Repository
// objects, and Events about both, and nobody else does. The functions here
// make values and ops; the reconciler stores those that belong to the commit in
// the commit's own transaction.
package report

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Kept is how many commits of a repository are remembered.
const Kept = 50

// maxFindings is how many findings a Commit object carries.
const maxFindings = 200

// maxWarnings is how many warnings it carries: every commit has those of all its
// files again.
const maxWarnings = 50

var commits = schema.ResourceFor[*v1alpha1.Commit]()

// CommitName is the name of the Commit object of a Git commit.
func CommitName(repository, sha string) string {
	return repository + "-" + sha[:min(12, len(sha))]
}

// NewCommit makes the object of a commit that has just been seen.
func NewCommit(spec v1alpha1.CommitSpec, now time.Time) *v1alpha1.Commit {
	c := &v1alpha1.Commit{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Commit"},
		ObjectMeta: metav1.ObjectMeta{Name: CommitName(spec.Repository, spec.SHA)},
		Spec:       spec,
	}
	c.Status = v1alpha1.CommitStatus{Phase: v1alpha1.CommitPending, Reason: "Evaluating", Message: "the commit is read and checked", SeenTime: micro(now)}
	return c
}

// Create stores a new Commit object with its status.
func Create(c *v1alpha1.Commit) []client.Op {
	return []client.Op{
		{Verb: client.VerbCreate, Resource: commits, Key: schema.KeyOf(c), Object: c, FieldManager: plan.Manager},
		Status(c),
	}
}

// Status stores the status of a Commit object, whatever it was before: there
// is one writer.
func Status(c *v1alpha1.Commit) client.Op {
	c = c.DeepCopy()
	c.ResourceVersion = ""
	return client.Op{Verb: client.VerbUpdate, Resource: commits, Key: schema.KeyOf(c), Object: c, Subresource: "status", FieldManager: plan.Manager}
}

// Times are when a commit came through the stages.
type Times struct{ Seen, Rendered, Planned, Applied time.Time }

// Applied says that the plan of the commit is in the store. A commit that has
// been applied before and comes back, by a reset of the branch, was seen anew.
func Applied(c *v1alpha1.Commit, p *plan.Plan, at Times) {
	if c.Status.Phase != v1alpha1.CommitPending {
		c.Status.SeenTime = micro(at.Seen)
	}
	c.Status = v1alpha1.CommitStatus{
		Phase: v1alpha1.CommitApplied, Reason: "Progressing", Message: "the cluster works towards the commit",
		SeenTime: c.Status.SeenTime, RenderedTime: micro(at.Rendered), PlannedTime: micro(at.Planned), AppliedTime: micro(at.Applied),
		Objects: int32(p.Declared), Created: int32(p.Count(plan.Create)), Updated: int32(p.Count(plan.Update) + p.Count(plan.Replace)),
		Deleted: int32(p.Count(plan.Delete)), Unchanged: int32(p.Unchanged),
		Warnings: p.Warnings[:min(len(p.Warnings), maxWarnings)],
	}
	changes(&c.Status, p)
}

// Partly says that files with findings were left out of an applied commit.
func Partly(c *v1alpha1.Commit, findings []v1alpha1.Finding, files int, now time.Time) {
	s := &c.Status
	s.Phase, s.Reason, s.FailedTime = v1alpha1.CommitFailed, ReasonPartly, micro(now)
	s.Message = plural(len(findings), "finding") + "; " + plural(files, "file") + " left as before, the others are applied"
	s.Findings = findings[:min(len(findings), maxFindings)]
}

// SamePartly says whether a commit says already that it was applied without
// what the findings are about.
func SamePartly(c *v1alpha1.Commit, findings []v1alpha1.Finding) bool {
	return c.Status.Reason == ReasonPartly && slices.Equal(c.Status.Findings, findings[:min(len(findings), maxFindings)])
}

// RolledBack says that another commit is in force again.
func RolledBack(failed, to *v1alpha1.Commit) *v1alpha1.Commit {
	failed = failed.DeepCopy()
	failed.Status.RolledBackTo = to.Spec.SHA
	failed.Status.Message += "; rolled back to " + to.Spec.SHA[:min(7, len(to.Spec.SHA))]
	return failed
}

// Stored corrects the time of an applied commit by what the transaction took.
// It is kept with the next word about the commit.
func Stored(c *v1alpha1.Commit, now time.Time) { c.Status.AppliedTime = micro(now) }

// Refused says that the commit does not enter the cluster, and why.
func Refused(c *v1alpha1.Commit, findings []v1alpha1.Finding, now time.Time) {
	s := &c.Status
	s.Phase, s.Reason, s.FailedTime = v1alpha1.CommitFailed, "Refused", micro(now)
	s.Message = plural(len(findings), "finding") + "; the cluster is as it was before"
	s.Findings = findings[:min(len(findings), maxFindings)]
	s.Unhealthy = nil
}

// Close supersedes the commits that the new one takes the place of, and
// forgets the oldest. all are the Commit objects of the repository.
func Close(all []*v1alpha1.Commit, newest string) []client.Op {
	var ops []client.Op
	var old []*v1alpha1.Commit
	for _, c := range all {
		if c.Name == newest {
			continue
		}
		old = append(old, c)
	}
	slices.SortFunc(old, func(a, b *v1alpha1.Commit) int { return seen(b).Compare(seen(a)) })
	for i, c := range old {
		switch {
		case i >= Kept-1:
			ops = append(ops, client.Op{Verb: client.VerbDelete, Resource: commits, Key: schema.KeyOf(c)})
		case c.Status.Phase == v1alpha1.CommitPending || c.Status.Phase == v1alpha1.CommitApplied || c.Status.Phase == "":
			ops = append(ops, superseded(c, newest))
		}
	}
	return ops
}

// ClosePending supersedes the commits that never came to their turn before the
// newest one was refused.
func ClosePending(all []*v1alpha1.Commit, newest *v1alpha1.Commit) []client.Op {
	var ops []client.Op
	for _, c := range all {
		if c.Name != newest.Name && c.Status.Phase == v1alpha1.CommitPending && !seen(c).After(seen(newest)) {
			ops = append(ops, superseded(c, newest.Name))
		}
	}
	return ops
}

func superseded(c *v1alpha1.Commit, newest string) client.Op {
	c = c.DeepCopy()
	c.Status.Phase, c.Status.Reason = v1alpha1.CommitSuperseded, "Superseded"
	c.Status.Message = "a newer commit took its place: " + newest
	c.Status.Unhealthy = nil
	return Status(c)
}

// Abandoned ends a commit whose repository is gone: nobody follows its objects
// any more. nil: it has ended already.
func Abandoned(c *v1alpha1.Commit) []client.Op {
	if s := c.Status; s.Phase == v1alpha1.CommitFailed || s.Phase == v1alpha1.CommitSuperseded {
		return nil
	}
	c = c.DeepCopy()
	c.Status.Phase, c.Status.Reason = v1alpha1.CommitSuperseded, "RepositoryGone"
	c.Status.Message = "the repository " + c.Spec.Repository + " is not declared any more; the objects stay, and are nobody's"
	c.Status.Unhealthy = nil
	return []client.Op{Status(c)}
}

func seen(c *v1alpha1.Commit) time.Time {
	if c.Status.SeenTime != nil {
		return c.Status.SeenTime.Time
	}
	return c.CreationTimestamp.Time
}

func equalStatus(a, b *v1alpha1.CommitStatus) bool {
	return a.Phase == b.Phase && a.Reason == b.Reason && a.Ready == b.Ready && waits(a) == waits(b) && slices.Equal(a.Unhealthy, b.Unhealthy)
}

// waits is the part of the message that says what is waited for.
func waits(s *v1alpha1.CommitStatus) string {
	_, what, _ := strings.Cut(s.Message, "waiting for ")
	return what
}

func micro(t time.Time) *metav1.MicroTime { m := metav1.NewMicroTime(t); return &m }

func plural(n int, what string) string {
	s := itoa(n) + " " + what
	if n != 1 {
		s += "s"
	}
	return s
}

// Title is the first line of a commit message.
func Title(message string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
	return line
}
