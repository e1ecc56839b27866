package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Drift is how the live cluster differs from the commit that is applied.
type Drift struct {
	Commit string `json:"commit"`
	// Plan is what would bring the cluster back to the commit; nil where no
	// clone has it.
	Plan *plan.Plan `json:"plan,omitempty"`
	// Missing are declared objects that are not there, for want of a Plan.
	Missing []string `json:"missing,omitempty"`
	// Recent are the differences that were last put back or left alone.
	Recent []v1alpha1.ObjectHealth `json:"recent,omitempty"`
	Note   string                  `json:"note,omitempty"`
}

// Differs says whether anything does now.
func (d *Drift) Differs() bool {
	return len(d.Missing) > 0 || d.Plan != nil && (len(d.Plan.Ops) > 0 || len(d.Plan.Findings) > 0)
}

// DiffLive compares the live cluster with Git. With a clone that has the
// applied commit every declared field is compared; without one what can be told
// is which objects are missing, and what has drifted of late.
func DiffLive(ctx context.Context, c client.Reader, o Options) (*Drift, error) {
	repo, err := readRepository(ctx, c, o.repository())
	if err != nil {
		return nil, err
	}
	if repo == nil || repo.Status.Applied == "" {
		return nil, fmt.Errorf("no commit of the repository %s is applied", o.repository())
	}
	d := &Drift{Commit: repo.Status.Applied, Recent: repo.Status.Drifted}
	at, err := nearClone(o.Clone)
	if err != nil {
		return nil, err
	}
	defer at.close()
	if !at.has(d.Commit) {
		d.Note = fmt.Sprintf("every field is compared where a clone has the commit %s: run this in one, or name it with --repo", short(d.Commit))
		d.Missing, err = missing(ctx, c, o.repository())
		return d, err
	}
	t, err := at.tree(d.Commit, folderOf(repo))
	if err != nil {
		return nil, err
	}
	commit, err := at.src.Commit(d.Commit)
	if err != nil {
		return nil, err
	}
	d.Plan, err = planTree(ctx, t, commit, c, o)
	return d, err
}

// missing are the objects that an inventory names and that are not there.
func missing(ctx context.Context, c client.Reader, repository string) ([]string, error) {
	inventories, err := client.ListAll[*v1alpha1.Inventory](ctx, c, client.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list inventories: %w", err)
	}
	served, err := readKinds(ctx, c)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, inv := range inventories {
		for i := range inv.Spec.Objects {
			ref, ok := plan.RefOf(&inv.Spec.Objects[i], served.ByGVK)
			if !ok || inv.Spec.Repository != repository {
				continue
			}
			if _, err := c.Get(ctx, ref.Resource, ref.Key); apierrors.IsNotFound(err) {
				out = append(out, ref.String())
			} else if err != nil && !apierrors.IsForbidden(err) {
				return nil, fmt.Errorf("read %s: %w", ref, err)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

// WriteDrift writes how the cluster differs.
func WriteDrift(w io.Writer, d *Drift, o Options) error {
	if o.JSON {
		return writeJSON(w, d)
	}
	var b strings.Builder
	switch {
	case d.Plan != nil && len(d.Plan.Findings) > 0:
		if err := WriteFindings(&b, d.Plan.Findings, o); err != nil {
			return err
		}
	case d.Differs():
		fmt.Fprintf(&b, "The cluster differs from the commit %s. To be put back:\n\n", short(d.Commit))
		if d.Plan != nil {
			if err := d.Plan.Write(&b, plan.Style{Color: o.Color}); err != nil {
				return err
			}
		}
		for _, m := range d.Missing {
			fmt.Fprintf(&b, "%s %s is missing\n", paint(o, red, "-"), m)
		}
	case d.Plan != nil:
		fmt.Fprintf(&b, "The cluster is as the commit %s declares it: %d objects.\n", short(d.Commit), d.Plan.Declared)
	default:
		fmt.Fprintf(&b, "Every object of the commit %s is there.\n", short(d.Commit))
	}
	for i, r := range d.Recent {
		if i == 0 {
			b.WriteString("\nLast differences that were seen:\n")
		}
		fmt.Fprintf(&b, "  %-8s  %s  %s\n", r.Health, r.Object, r.Message)
	}
	if d.Note != "" {
		fmt.Fprintf(&b, "\n%s\n", d.Note)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Changes is what lies between two commits.
type Changes struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Plan compares the two trees, where a clone has both.
	Plan *plan.Plan `json:"plan,omitempty"`
	// Objects is what the commits between were recorded to do, without a clone.
	Objects []v1alpha1.CommitChange `json:"objects,omitempty"`
	Omitted int32                   `json:"omitted,omitempty"`
	Commits int                     `json:"commits,omitempty"`
}

// DiffCommits compares two commits; to may be "" for the one that is applied.
func DiffCommits(ctx context.Context, c client.Reader, o Options, from, to string) (*Changes, error) {
	repo, err := readRepository(ctx, c, o.repository())
	if err != nil {
		return nil, err
	}
	if to == "" {
		if repo == nil || repo.Status.Applied == "" {
			return nil, fmt.Errorf("no commit of the repository %s is applied", o.repository())
		}
		to = repo.Status.Applied
	}
	at, err := nearClone(o.Clone)
	if err != nil {
		return nil, err
	}
	defer at.close()
	if at != nil {
		a, errA := at.resolve(from)
		b, errB := at.resolve(to)
		if errA == nil && errB == nil {
			return diffTrees(ctx, at, a.SHA, b.SHA, folderOf(repo), o)
		}
	}
	all, err := commits(ctx, c, o.repository())
	if err != nil {
		return nil, err
	}
	a, err := mustRecorded(all, from, o)
	if err != nil {
		return nil, err
	}
	b, err := mustRecorded(all, to, o)
	if err != nil {
		return nil, err
	}
	return sumUp(all, a, b), nil
}

func mustRecorded(all []*v1alpha1.Commit, name string, o Options) (*v1alpha1.Commit, error) {
	c, err := recorded(all, name)
	if err == nil && c == nil {
		err = fmt.Errorf("the commit %s is not among the %d that the cluster remembers of the repository %s, and no clone has it: name one with --repo", name, len(all), o.repository())
	}
	return c, err
}

func diffTrees(ctx context.Context, at *clone, a, b, path string, o Options) (*Changes, error) {
	from, err := at.tree(a, path)
	if err != nil {
		return nil, err
	}
	to, err := at.tree(b, path)
	if err != nil {
		return nil, err
	}
	p, err := planBetween(ctx, from, to, "the commit "+short(a), o)
	return &Changes{From: a, To: b, Plan: p}, err
}

// sumUp adds up what the commits after a and up to b did; the other way round
// where b is the older one. all has the newest first.
func sumUp(all []*v1alpha1.Commit, a, b *v1alpha1.Commit) *Changes {
	out := &Changes{From: a.Spec.SHA, To: b.Spec.SHA}
	i, j := slices.Index(all, a), slices.Index(all, b)
	back := j > i
	if back {
		i, j = j, i
	}
	s := sum{byObject: map[string]int{}}
	for k := i - 1; k >= j; k-- {
		if all[k].Status.AppliedTime == nil {
			continue
		}
		out.Commits++
		out.Omitted += all[k].Status.ChangesOmitted
		for _, ch := range all[k].Status.Changes {
			s.add(ch)
		}
	}
	out.Objects = s.objects()
	if back {
		out.Objects = inverse(out.Objects)
	}
	return out
}

// sum is several changes of each object as one.
type sum struct {
	changes  []v1alpha1.CommitChange
	byObject map[string]int
}

func (s *sum) add(ch v1alpha1.CommitChange) {
	i, ok := s.byObject[ch.Object]
	if !ok {
		s.byObject[ch.Object] = len(s.changes)
		ch.Fields = slices.Clone(ch.Fields)
		s.changes = append(s.changes, ch)
		return
	}
	was := &s.changes[i]
	was.File, was.Line = ch.File, ch.Line
	was.Action = together(was.Action, ch.Action)
	for _, f := range ch.Fields {
		if k := slices.IndexFunc(was.Fields, func(g v1alpha1.FieldChange) bool { return g.Path == f.Path }); k >= 0 {
			was.Fields[k].New = f.New
		} else {
			was.Fields = append(was.Fields, f)
		}
	}
}

// together is what two actions on one object come to; "": nothing.
func together(first, then string) string {
	made, gone := first == "create", then == "delete"
	switch {
	case made && gone:
		return ""
	case made:
		return "create"
	case gone:
		return "delete"
	case first == "delete" && then == "create", first == "replace", then == "replace":
		return "replace"
	case first == "":
		return then
	}
	return "update"
}

func (s *sum) objects() []v1alpha1.CommitChange {
	var out []v1alpha1.CommitChange
	for _, ch := range s.changes {
		ch.Fields = slices.DeleteFunc(ch.Fields, func(f v1alpha1.FieldChange) bool { return f.Old == f.New && f.Path != "" })
		if ch.Action == "" || ch.Action == "update" && len(ch.Fields) == 0 {
			continue
		}
		out = append(out, ch)
	}
	slices.SortFunc(out, func(a, b v1alpha1.CommitChange) int { return strings.Compare(a.Object, b.Object) })
	return out
}

// inverse is what takes changes back.
func inverse(all []v1alpha1.CommitChange) []v1alpha1.CommitChange {
	out := slices.Clone(all)
	for i := range out {
		switch out[i].Action {
		case "create":
			out[i].Action = "delete"
		case "delete":
			out[i].Action = "create"
		}
		out[i].Fields = slices.Clone(out[i].Fields)
		for j := range out[i].Fields {
			f := &out[i].Fields[j]
			f.Old, f.New = f.New, f.Old
		}
	}
	return out
}

// WriteChanges writes what lies between two commits.
func WriteChanges(w io.Writer, ch *Changes, o Options) error {
	if o.JSON {
		return writeJSON(w, ch)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "From %s to %s:\n\n", short(ch.From), short(ch.To))
	switch {
	case ch.Plan != nil && len(ch.Plan.Findings) > 0:
		if err := WriteFindings(&b, ch.Plan.Findings, o); err != nil {
			return err
		}
	case ch.Plan != nil:
		if err := ch.Plan.Write(&b, plan.Style{Color: o.Color}); err != nil {
			return err
		}
	default:
		writeObjects(&b, ch.Objects, ch.Omitted, o)
		fmt.Fprintf(&b, "%s\n", paint(o, bold, fmt.Sprintf("%d objects differ, by what %d commits were recorded to do.", len(ch.Objects), ch.Commits)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// signs are those of a plan.
var signs = map[string]struct{ sign, color string }{"create": {"+", green}, "update": {"~", yellow}, "delete": {"-", red}, "replace": {"±", red}}

// writeObjects writes recorded changes as a plan is written.
func writeObjects(b *strings.Builder, all []v1alpha1.CommitChange, omitted int32, o Options) {
	width := 0
	for _, ch := range all {
		width = max(width, len(ch.Object))
	}
	for _, ch := range all {
		s := signs[ch.Action]
		line := fmt.Sprintf("%s %-*s  %s", paint(o, s.color, s.sign), min(width, 60), ch.Object, place(ch.File, ch.Line))
		fmt.Fprintf(b, "%s\n", strings.TrimRight(line, " "))
		for _, f := range ch.Fields {
			fmt.Fprintf(b, "      %s\n", arrow(o, f.Path, f.Old, f.New))
		}
	}
	if omitted > 0 {
		fmt.Fprintf(b, "  ... and %d more that were not recorded\n", omitted)
	}
	if len(all) > 0 || omitted > 0 {
		b.WriteString("\n")
	}
}

func place(file string, line int) string {
	switch {
	case file == "":
		return ""
	case line == 0:
		return file
	}
	return fmt.Sprintf("%s:%d", file, line)
}

// Differs says whether anything lies between the commits.
func (c *Changes) Differs() bool {
	return len(c.Objects) > 0 || c.Omitted > 0 || c.Plan != nil && (len(c.Plan.Ops) > 0 || len(c.Plan.Findings) > 0)
}
