package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/report"
	"github.com/writ-os/writ/reconciler/source"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Step is one commit that a bisection has looked at.
type Step struct {
	Commit  string `json:"commit"`
	Author  string `json:"author"`
	Time    string `json:"time"`
	Message string `json:"message"`
	Bad     bool   `json:"bad"`
	// How it was judged: recorded (the cluster has tried it), plan or check.
	How      string             `json:"how"`
	Reason   string             `json:"reason,omitempty"`
	Findings []v1alpha1.Finding `json:"findings,omitempty"`
}

// Bisection is the search for the first bad commit.
type Bisection struct {
	Between int    `json:"between"` // commits between good and bad
	Steps   []Step `json:"steps"`
	// First is the first bad commit.
	First *Step `json:"first,omitempty"`
}

// maxWalk bounds the commits between good and bad.
const maxWalk = 100_000

// Bisect looks for the first bad commit between a good and a bad one of a
// clone, along first parents. Nothing is checked out and nothing is applied: a
// commit is bad when the cluster has tried it and it failed, or when it has
// findings, planned against the cluster as it is now. c may be nil: then the
// files are only checked. told, if set, hears of each step as it is made.
func Bisect(ctx context.Context, c client.Reader, o Options, good, bad string, told func(Step)) (*Bisection, error) {
	dir := o.Clone
	if dir == "" {
		dir = "."
	}
	at, err := openClone(dir)
	if err != nil {
		return nil, err
	}
	defer at.close()
	line, err := at.between(good, bad)
	if err != nil {
		return nil, err
	}
	b := &bisector{at: at, options: o, reader: c, path: ".", told: told, out: &Bisection{Between: len(line) - 2}}
	if c != nil {
		if err := b.prepare(ctx); err != nil {
			return nil, err
		}
	}
	return b.out, b.search(ctx, line)
}

type bisector struct {
	at      *clone
	options Options
	reader  client.Reader // nil: no cluster
	path    string
	tried   map[string]*v1alpha1.Commit
	told    func(Step)
	out     *Bisection
}

func (b *bisector) prepare(ctx context.Context) error {
	repo, err := readRepository(ctx, b.reader, b.options.repository())
	if err != nil {
		return err
	}
	b.path = folderOf(repo)
	all, err := commits(ctx, b.reader, b.options.repository())
	b.tried = make(map[string]*v1alpha1.Commit, len(all))
	for _, c := range all {
		b.tried[c.Spec.SHA] = c
	}
	return err
}

// search halves the line until two neighbours are left: a good and a bad one.
// The ends are looked at first, for without a difference there is nothing to
// find.
func (b *bisector) search(ctx context.Context, line []source.Commit) error {
	last, err := b.judge(ctx, line[len(line)-1])
	if err != nil {
		return err
	}
	if !last.Bad {
		return fmt.Errorf("nothing is wrong with the bad commit %s: it has no findings", short(last.Commit))
	}
	first, err := b.judge(ctx, line[0])
	if err != nil {
		return err
	}
	if first.Bad {
		return fmt.Errorf("the good commit %s is bad itself: %s", short(first.Commit), first.Reason)
	}
	b.out.First = last
	lo, hi := b.recorded(line)
	if hi < len(line)-1 {
		if b.out.First, err = b.judge(ctx, line[hi]); err != nil {
			return err
		}
	}
	for hi-lo > 1 {
		mid := lo + (hi-lo)/2
		s, err := b.judge(ctx, line[mid])
		if err != nil {
			return err
		}
		if s.Bad {
			hi, b.out.First = mid, s
		} else {
			lo = mid
		}
	}
	return nil
}

// recorded narrows the line by what the cluster remembers: the first commit
// that failed there, and the last before it that became healthy. What happened
// counts for more than what a plan of today says.
func (b *bisector) recorded(line []source.Commit) (good, bad int) {
	phase := func(i int) v1alpha1.CommitPhase {
		if tried := b.tried[line[i].SHA]; tried != nil {
			return tried.Status.Phase
		}
		return ""
	}
	bad = len(line) - 1
	for i := 1; i < bad; i++ {
		if phase(i) == v1alpha1.CommitFailed {
			bad = i
		}
	}
	for i := 1; i < bad; i++ {
		if phase(i) == v1alpha1.CommitHealthy {
			good = i
		}
	}
	return good, bad
}

func (b *bisector) judge(ctx context.Context, c source.Commit) (*Step, error) {
	s := Step{Commit: c.SHA, Author: c.Author, Time: stamp(c.Time), Message: report.Title(c.Message)}
	if err := b.decide(ctx, c, &s); err != nil {
		return nil, fmt.Errorf("look at %s: %w", short(c.SHA), err)
	}
	b.out.Steps = append(b.out.Steps, s)
	if b.told != nil {
		b.told(s)
	}
	return &s, nil
}

func (b *bisector) decide(ctx context.Context, c source.Commit, s *Step) error {
	if tried := b.tried[c.SHA]; tried != nil {
		switch tried.Status.Phase {
		case v1alpha1.CommitFailed:
			s.How, s.Bad, s.Reason, s.Findings = "recorded", true, tried.Status.Message, tried.Status.Findings
			return nil
		case v1alpha1.CommitHealthy:
			s.How = "recorded"
			return nil
		}
	}
	t, err := b.at.tree(c.SHA, b.path)
	if err != nil {
		return err
	}
	if b.reader == nil {
		s.How = "check"
		s.Findings, err = reconciler.Check(ctx, t, render.Options{Sandbox: b.options.Sandbox})
	} else {
		s.How = "plan"
		s.Findings, err = b.plan(ctx, t, c)
	}
	if err != nil {
		return err
	}
	if s.Bad = len(s.Findings) > 0; s.Bad {
		s.Reason = report.FindingText(s.Findings[0])
		if n := len(s.Findings) - 1; n > 0 {
			s.Reason += fmt.Sprintf(" (and %d more)", n)
		}
	}
	return nil
}

// plan are the findings of a plan. An old commit lacks much of what is in the
// cluster now: how much it would delete says nothing of it.
func (b *bisector) plan(ctx context.Context, t render.Tree, c source.Commit) ([]v1alpha1.Finding, error) {
	w, err := readWorld(ctx, b.reader, b.options, t)
	if err != nil {
		return nil, err
	}
	w.AllowDeletes, w.Render.Sandbox = true, b.options.Sandbox
	p, err := reconciler.Plan(ctx, t, c, w)
	if err != nil {
		return nil, err
	}
	return p.Findings, nil
}

// between are the commits from good to bad along first parents, both included,
// the oldest first.
func (c *clone) between(good, bad string) ([]source.Commit, error) {
	from, err := c.resolve(good)
	if err != nil {
		return nil, err
	}
	at, err := c.resolve(bad)
	if err != nil {
		return nil, err
	}
	if from.SHA == at.SHA {
		return nil, Usage("the good and the bad commit are the same: %s", short(at.SHA))
	}
	line := []source.Commit{at}
	for at.SHA != from.SHA {
		if at.Parent == "" || len(line) > maxWalk {
			return nil, Usage("the good commit %s does not come before the bad one %s along first parents", short(from.SHA), short(line[0].SHA))
		}
		if at, err = c.src.Commit(at.Parent); err != nil {
			return nil, fmt.Errorf("walk from %s to %s: %w: git fetch --unshallow brings the history", short(line[0].SHA), short(from.SHA), err)
		}
		line = append(line, at)
	}
	slices.Reverse(line)
	return line, nil
}

// WriteStep writes one step of a bisection.
func WriteStep(w io.Writer, s Step, o Options) {
	verdict := paint(o, green, "good")
	if s.Bad {
		verdict = paint(o, red, "bad ")
	}
	fmt.Fprintf(w, "%s  %s  %s\n", short(s.Commit), verdict, s.Message)
	if s.Bad {
		fmt.Fprintf(w, "               %s\n", s.Reason)
	}
}

// WriteBisection writes what was found.
func WriteBisection(w io.Writer, b *Bisection, o Options) error {
	if o.JSON {
		return writeJSON(w, b)
	}
	var t strings.Builder
	f := b.First
	fmt.Fprintf(&t, "\nThe first bad commit is %s, found in %d steps among %d:\n\n", paint(o, red, short(f.Commit)), len(b.Steps), b.Between+1)
	fmt.Fprintf(&t, "  commit   %s\n  author   %s\n  time     %s\n  message  %s\n  judged   %s\n", f.Commit, f.Author, f.Time, f.Message, judgedBy[f.How])
	for i, finding := range f.Findings {
		if i == 0 {
			t.WriteString("\n")
		}
		fmt.Fprintf(&t, "%s\n", report.FindingText(finding))
	}
	if len(f.Findings) == 0 && f.Reason != "" {
		fmt.Fprintf(&t, "\n%s\n", f.Reason)
	}
	_, err := io.WriteString(w, t.String())
	return err
}

// judgedBy says how a commit was judged.
var judgedBy = map[string]string{
	"recorded": "by what happened when the cluster tried it",
	"plan":     "by a plan against the cluster as it is now",
	"check":    "by its files alone",
}
