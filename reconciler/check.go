package reconciler

import (
	"context"
	"fmt"
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
	// expect is told what is about to be planned; nil: nobody needs to know.
	expect func(context.Context, []render.Head) error
}

// Check says what is wrong with a tree by itself, without a cluster: all of
// it, sorted by file and line. nil: nothing.
func Check(ctx context.Context, t render.Tree, options ...render.Options) ([]v1alpha1.Finding, error) {
	o := render.Options{}
	if len(options) > 0 {
		o = options[0]
	}
	if o.Open == nil {
		o.Open = Mask
	}
	ev, err := newEvaluator().evaluate(ctx, t, func(*render.Unit) bool { return false }, o)
	if err != nil {
		return nil, err
	}
	return validate.Sort(append(ev.findings, validate.Objects(ev.heads(), nil)...)), nil
}

// Plan says what a tree would do to a cluster. Findings of the tree itself and
// of the plan are in Plan.Findings.
//
// Who plans from outside has no keys: where World.Render opens nothing, what is
// encrypted is compared by its hash.
func Plan(ctx context.Context, t render.Tree, c Commit, w World) (*plan.Plan, error) {
	if w.Render.Open == nil {
		w.Render.Open = Mask
	}
	p, _, err := newEvaluator().plan(ctx, t, c, w, true)
	return p, err
}

// plan evaluates a tree and plans it. full compares every object with the live
// one, and not only those of units that have changed.
func (e *evaluator) plan(ctx context.Context, t render.Tree, c Commit, w World, full bool) (*plan.Plan, *evaluation, error) {
	inventories := inventoriesOf(w.Inventories, w.Repository)
	options, missing := w.options()
	if len(missing) > 0 {
		return &plan.Plan{Findings: missing}, &evaluation{}, nil
	}
	ev, err := e.evaluate(ctx, t, func(u *render.Unit) bool {
		inv := inventories[u.Path]
		return full || inv == nil || inv.Spec.Blob != u.Hash
	}, options)
	if err != nil {
		return nil, nil, err
	}
	findings := append(ev.findings, validate.Objects(ev.heads(), namespaceExists(w.Live))...)
	if len(findings) > 0 && !ev.leave(findings, w) {
		return &plan.Plan{Findings: validate.Sort(findings)}, ev, nil
	}
	if w.expect != nil {
		if err := w.expect(ctx, ev.kept()); err != nil {
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
	in := plan.Input{Repository: w.Repository, SHA: c.SHA, Author: c.Author, Time: c.Time, Priorities: w.Priorities,
		Inventories: w.Inventories, Live: w.Live, Kinds: w.Kinds, Unreadable: w.Unreadable, AllowDeletes: w.AllowDeletes || allowsDeletes(c.Message)}
	if s := w.Spec; s != nil {
		in.Ignore, in.KeepUndeclared = s.Ignore, s.Prune != nil && !*s.Prune
		if s.Deletions != nil {
			in.MaxDeletes, in.MaxDeletePercent = s.Deletions.MaxObjects, s.Deletions.MaxPercent
		}
	}
	inventories := inventoriesOf(w.Inventories, w.Repository)
	for i := range ev.units {
		if ev.left[ev.units[i].Path] {
			continue
		}
		u := ev.desired(i)
		if plan.Stale(&u, inventories[u.Path], w.Live) {
			if err := ev.load(ctx, i); err != nil {
				return nil, fmt.Errorf("read %s again: %w", u.Path, err)
			}
			u = ev.desired(i)
		}
		in.Units = append(in.Units, u)
	}
	for path := range ev.left {
		in.Units = append(in.Units, plan.Unit{Path: path, Broken: true})
	}
	p := plan.Compute(in)
	ev.locate(ctx, p.Findings)
	p.Findings, p.Warnings = validate.Sort(p.Findings), ev.warnings
	return p, nil
}

func inventoriesOf(all []*v1alpha1.Inventory, repository string) map[string]*v1alpha1.Inventory {
	out := make(map[string]*v1alpha1.Inventory, len(all))
	for _, inv := range all {
		if inv.Spec.Repository == repository {
			out[inv.Spec.File] = inv
		}
	}
	return out
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
