package reconciler

import (
	"context"
	"slices"
	"strings"

	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/validate"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// World is what a commit is planned against.
type World struct {
	Repository string
	// Spec is what the Repository object says; nil: nothing but defaults.
	Spec *v1alpha1.RepositorySpec
	// Priorities of all repositories, by name.
	Priorities  map[string]int32
	Live        plan.Live
	Inventories []*v1alpha1.Inventory
	// Kinds finds the custom kinds that the cluster serves.
	Kinds plan.Kinds
	// Render says how the tree is rendered. Where it has no Variables they are
	// those of Spec.
	Render render.Options
	// AllowDeletes lifts the deletion budget: a rollback takes back what the
	// failed commit made.
	AllowDeletes bool
	// Unreadable says of which kinds the live objects cannot be read.
	Unreadable func(*schema.Resource) bool
	// Assumed says that the cluster is none that runs: that something is not
	// there means nothing.
	Assumed bool
	// expect is told what is about to be planned; nil: nobody needs to know.
	expect func(context.Context, []render.Head) error
	// touched are the objects that may not be live, or not as they were left;
	// false: others may too. nil: any may.
	touched func() ([]render.Ref, bool)
	// sweep has all objects looked for, and not only those that were touched.
	sweep bool
}

// Check says what is wrong with a tree by itself, without a cluster: all of
// it, sorted by file and line. nil: nothing.
func Check(ctx context.Context, t render.Tree, options ...render.Options) ([]v1alpha1.Finding, error) {
	r, err := Review(ctx, t, options...)
	if err != nil {
		return nil, err
	}
	return r.Findings, nil
}

// Reviewed is what there is to say of a tree without a cluster.
type Reviewed struct {
	// Findings keep it from being applied, Warnings do not: rules that warn, and
	// fields on which nothing acts. Both are sorted by file and line.
	Findings, Warnings []v1alpha1.Finding
	// Objects that are declared, and Files, or folders that are built as a whole,
	// that declare them.
	Objects, Files int
}

// Review is Check that says all there is to say.
func Review(ctx context.Context, t render.Tree, options ...render.Options) (*Reviewed, error) {
	o := render.Options{}
	if len(options) > 0 {
		o = options[0]
	}
	if o.Open == nil {
		o.Open = Mask
	}
	ev, err := newEvaluator().evaluate(ctx, t, nil, o)
	if err != nil {
		return nil, err
	}
	refused, warned, err := ev.security(ctx, nil)
	if err != nil {
		return nil, err
	}
	missing, missed := ev.speaksOf(nil)
	out := &Reviewed{Findings: validate.Sort(slices.Concat(ev.findings, ev.together(nil), refused, missing)),
		Warnings: validate.Sort(slices.Concat(ev.warnings, warned, missed)), Objects: ev.objects}
	for u := range ev.units.All() {
		if len(u.heads) > 0 {
			out.Files++
		}
	}
	return out, nil
}

// Plan says what a tree would do to a cluster. Findings of the tree itself and
// of the plan are in Plan.Findings.
//
// Who plans from outside has no keys: where World.Render opens nothing, what is
// encrypted value by value (SOPS) is compared by its hash, and a file that is
// encrypted as a whole is a finding.
func Plan(ctx context.Context, t render.Tree, c Commit, w World) (*plan.Plan, error) {
	if w.Render.Open == nil {
		keys := ""
		if w.Spec != nil && w.Spec.Decryption != nil {
			keys = w.Spec.Decryption.Secret
		}
		w.Render.Open = masker(keys)
	}
	p, _, err := newEvaluator().plan(ctx, t, c, w, true)
	return p, err
}

// plan evaluates a tree and plans it. full compares every object with the live
// one, and not only those of units that have changed.
func (e *evaluator) plan(ctx context.Context, t render.Tree, c Commit, w World, full bool) (*plan.Plan, *evaluation, error) {
	options, missing := w.options()
	if len(missing) > 0 {
		return &plan.Plan{Findings: missing}, e.use(newEvaluated()), nil
	}
	before := e.open.inventories(w)
	ev, err := e.evaluate(ctx, t, func(u *render.Unit) bool {
		inv := before.Unit(u.Path)
		return full || inv == nil || inv.Spec.Blob != u.Hash
	}, options)
	if err != nil {
		return nil, nil, err
	}
	refused, warned, err := ev.security(ctx, w.Live)
	if err != nil {
		return nil, nil, err
	}
	ev.warnings = append(ev.warnings, warned...)
	lacking, _ := ev.speaksOf(w.cluster())
	findings := slices.Concat(ev.findings, ev.together(namespaceExists(w.Live)), refused, lacking)
	if len(findings) > 0 && !ev.leave(findings, w) {
		return &plan.Plan{Findings: validate.Sort(findings)}, ev, nil
	}
	if full {
		w.touched = nil
		if err := ev.load(ctx, slices.Collect(ev.units.All())...); err != nil {
			return nil, nil, err
		}
	}
	p, err := ev.plan(ctx, c, w)
	return p, ev, err
}

// plan computes the plan of an evaluated tree against the world as it is now.
// Where the repository goes on without the files that have findings, they are
// left out until the rest can be applied.
func (ev *evaluation) plan(ctx context.Context, c Commit, w World) (*plan.Plan, error) {
	for {
		p, err := ev.compute(ctx, c, w)
		if err != nil || len(p.Findings) == 0 || !ev.leave(p.Findings, w) {
			return p, err
		}
	}
}

func (ev *evaluation) compute(ctx context.Context, c Commit, w World) (*plan.Plan, error) {
	refused, warned := ev.speaksOf(w.cluster())
	if len(refused) > 0 { // since it was evaluated
		return &plan.Plan{Findings: validate.Sort(refused)}, nil
	}
	in := w.input()
	in.Rules = ev.judge.kinds.rules
	in.SHA, in.Author, in.Time, in.AllowDeletes = c.SHA, c.Author, c.Time, w.AllowDeletes || allowsDeletes(c.Message)
	var err error
	if in.Before, in.Units, in.Rest, err = ev.look(ctx, w); err != nil {
		return nil, err
	}
	ev.looked, ev.before = nil, nil
	if in.Rest != nil {
		ev.looked, ev.before = in.Units, in.Before
	}
	p := plan.Compute(in)
	ev.locate(ctx, p.Findings)
	p.Findings, p.Warnings = validate.Sort(p.Findings), validate.Sort(slices.Concat(ev.warnings, warned))
	return p, nil
}

// input is what of the world a plan depends on.
func (w World) input() plan.Input {
	in := plan.Input{Repository: w.Repository, Priorities: w.Priorities, Live: w.Live, Kinds: w.Kinds, Unreadable: w.Unreadable}
	if s := w.Spec; s != nil {
		in.Ignore, in.KeepUndeclared = s.Ignore, s.Prune != nil && !*s.Prune
		if s.Deletions != nil {
			in.MaxDeletes, in.MaxDeletePercent = s.Deletions.MaxObjects, s.Deletions.MaxPercent
		}
	}
	return in
}

// allowsDeletes reads the trailer that lifts the deletion budget.
func allowsDeletes(message string) bool {
	for line := range strings.Lines(message) {
		key, val, ok := strings.Cut(line, ":")
		if ok && strings.EqualFold(strings.TrimSpace(key), "Writ-Allow-Deletes") && strings.EqualFold(strings.TrimSpace(val), "true") {
			return true
		}
	}
	return false
}
