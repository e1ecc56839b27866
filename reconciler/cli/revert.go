package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler"
	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/report"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Revert is how to take a commit back, and what that would do. Nothing is
// changed: the commit is the only write.
type Revert struct {
	Commit   string   `json:"commit"`
	Author   string   `json:"author"`
	Message  string   `json:"message"`
	Commands []string `json:"commands"`
	// Plan is that of the reverted head of a clone.
	Plan *plan.Plan `json:"plan,omitempty"`
	// Conflicts are the files that were changed since in the same places: git
	// leaves them to a person, and there is no Plan.
	Conflicts []string `json:"conflicts,omitempty"`
	// Objects is the recorded change turned round, without a clone.
	Objects []v1alpha1.CommitChange `json:"objects,omitempty"`
	Omitted int32                   `json:"omitted,omitempty"`
	// Later are commits that have changed the same objects since.
	Later []string `json:"later,omitempty"`
	Notes []string `json:"notes,omitempty"`
}

// PlanRevert says how to take back a commit, which is named by its SHA or the
// beginning of it or, with a clone, in any way that git knows.
func PlanRevert(ctx context.Context, c client.Reader, o Options, name string) (*Revert, error) {
	all, err := commits(ctx, c, o.repository())
	if err != nil {
		return nil, err
	}
	repo, err := readRepository(ctx, c, o.repository())
	if err != nil {
		return nil, err
	}
	at, err := nearClone(o.Clone)
	if err != nil {
		return nil, err
	}
	defer at.close()
	obj, err := recorded(all, name)
	if err != nil {
		return nil, err
	}
	var r *Revert
	if at != nil {
		want := name
		if obj != nil {
			want = obj.Spec.SHA
		}
		known, err := at.resolve(want)
		switch {
		case err == nil:
			if obj == nil {
				obj, _ = recorded(all, known.SHA)
			}
			if r, err = at.revert(ctx, c, o, known, folderOf(repo)); err != nil {
				return nil, err
			}
		case obj == nil:
			return nil, err
		}
	}
	if obj == nil && r == nil {
		_, err := mustRecorded(all, name, o)
		return nil, err
	}
	if r == nil {
		r = &Revert{Commit: obj.Spec.SHA, Author: obj.Spec.Author, Message: report.Title(obj.Spec.Message), Commands: gitRevert(obj.Spec.SHA, false, repo),
			Objects: inverse(obj.Status.Changes), Omitted: obj.Status.ChangesOmitted}
		r.Notes = append(r.Notes, "this is what the commit was recorded to do, turned round; in a clone (--repo) a plan of the reverted files is made")
	} else {
		r.Commands = gitRevert(r.Commit, len(r.Commands) > 0, repo)
	}
	r.look(all, obj)
	return r, nil
}

// gitRevert are the commands; a merge is taken back to its first parent.
func gitRevert(sha string, merge bool, repo *v1alpha1.Repository) []string {
	mainline, branch := "", "main"
	if merge {
		mainline = "-m 1 "
	}
	if repo != nil && repo.Spec.Branch != "" {
		branch = repo.Spec.Branch
	}
	return []string{"git revert --no-edit " + mainline + sha[:min(12, len(sha))], "git push origin HEAD:" + branch}
}

// look notes what the records of the commit mean for taking it back.
func (r *Revert) look(all []*v1alpha1.Commit, obj *v1alpha1.Commit) {
	if obj == nil {
		r.Notes = append(r.Notes, "the cluster does not remember this commit")
		return
	}
	s := obj.Status
	switch {
	case s.RolledBackTo != "":
		r.Notes = append(r.Notes, fmt.Sprintf("the cluster has gone back to %s by itself; the revert makes Git say the same", short(s.RolledBackTo)))
	case s.Phase == v1alpha1.CommitFailed && s.AppliedTime == nil:
		r.Notes = append(r.Notes, "the commit was refused: it has changed nothing in the cluster")
	}
	for _, later := range all[:max(0, slices.Index(all, obj))] {
		if later.Status.AppliedTime == nil {
			continue
		}
		for _, ch := range later.Status.Changes {
			if slices.ContainsFunc(s.Changes, func(mine v1alpha1.CommitChange) bool { return mine.Object == ch.Object }) {
				r.Later = append(r.Later, fmt.Sprintf("%s  %s: %s", short(later.Spec.SHA), report.Title(later.Spec.Message), ch.Object))
			}
		}
	}
}

// revert plans the head of the clone with a commit taken back.
func (c *clone) revert(ctx context.Context, r client.Reader, o Options, commit reconciler.Commit, path string) (*Revert, error) {
	out := &Revert{Commit: commit.SHA, Author: commit.Author, Message: report.Title(commit.Message)}
	if obj, err := c.git.CommitObject(hashOf(commit.SHA)); err == nil && obj.NumParents() > 1 {
		out.Commands = []string{"merge"} // see gitRevert
	}
	head, err := c.resolve("HEAD")
	if err != nil {
		return nil, err
	}
	if !c.descends(head.SHA, commit.SHA) {
		return nil, fmt.Errorf("the commit %s is not in the history of the clone's head %s: check out the branch that has it", short(commit.SHA), short(head.SHA))
	}
	patched, conflicts, err := c.takeBack(commit, head.SHA, path)
	if err != nil {
		return nil, err
	}
	if out.Conflicts = conflicts; len(conflicts) > 0 {
		return out, nil
	}
	out.Plan, err = planTree(ctx, patched, reconciler.Commit{Message: "Revert \"" + out.Message + "\""}, r, o)
	return out, err
}

// WriteRevert writes how to take a commit back.
func WriteRevert(w io.Writer, r *Revert, o Options) error {
	if o.JSON {
		return writeJSON(w, r)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "To take back %s  %s  (%s):\n\n", short(r.Commit), r.Message, author(r.Author))
	for _, c := range r.Commands {
		fmt.Fprintf(&b, "    %s\n", c)
	}
	b.WriteString("\n")
	switch {
	case len(r.Conflicts) > 0:
		b.WriteString("Git will ask you to merge by hand; these files were changed since in the same places:\n\n")
		for _, f := range r.Conflicts {
			fmt.Fprintf(&b, "    %s\n", f)
		}
		b.WriteString("\n")
	case r.Plan != nil && len(r.Plan.Findings) > 0:
		b.WriteString("The cluster would refuse that:\n\n")
		if err := WriteFindings(&b, r.Plan.Findings, o); err != nil {
			return err
		}
		b.WriteString("\n")
	case r.Plan != nil:
		b.WriteString("That would do:\n\n")
		if err := r.Plan.Write(&b, plan.Style{Color: o.Color}); err != nil {
			return err
		}
		b.WriteString("\n")
	case len(r.Objects) > 0 || r.Omitted > 0:
		b.WriteString("That would do:\n\n")
		writeObjects(&b, r.Objects, r.Omitted, o)
	}
	for i, l := range r.Later {
		if i == 0 {
			b.WriteString("Later commits have changed the same objects:\n\n")
		}
		fmt.Fprintf(&b, "    %s\n", l)
	}
	if len(r.Later) > 0 {
		b.WriteString("\n")
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "Note: %s.\n", n)
	}
	_, err := io.WriteString(w, strings.TrimRight(b.String(), "\n")+"\n")
	return err
}
