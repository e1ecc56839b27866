package reconciler

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/validate"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// evaluation is what a tree declares, and what is wrong with it.
type evaluation struct {
	units    []render.Unit
	checked  []*checked // one for each unit
	findings []v1alpha1.Finding

	// left are the paths of units that are left out, with what is wrong with
	// them, where the repository goes on without.
	left         map[string]bool
	leftFindings []v1alpha1.Finding
}

// checked is a unit that has been rendered and validated. It is remembered by
// path and hash: a unit that has not changed is not read again.
type checked struct {
	hash     string
	heads    []render.Head
	findings []v1alpha1.Finding
	fields   [][]byte // JSON of the manifests; nil when it was not kept
}

// evaluator renders and validates trees, and remembers units.
type evaluator struct {
	mu    sync.Mutex
	known map[string]*checked // by path
}

func newEvaluator() *evaluator { return &evaluator{known: map[string]*checked{}} }

// evaluate reads a tree. keep says of which units the JSON is wanted after.
func (e *evaluator) evaluate(ctx context.Context, t render.Tree, keep func(*render.Unit) bool) (*evaluation, error) {
	units, findings, err := render.Scan(t)
	if err != nil {
		return nil, fmt.Errorf("scan tree: %w", err)
	}
	ev := &evaluation{units: units, checked: make([]*checked, len(units)), findings: findings}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range units {
		u, kept := &units[i], keep(&units[i])
		if c := e.recall(u); c != nil && (!kept || len(c.findings) > 0) {
			ev.checked[i] = c
			continue
		}
		g.Go(func() error {
			c, err := check(ctx, u, kept)
			ev.checked[i] = c
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	e.remember(ev)
	for _, c := range ev.checked {
		ev.findings = append(ev.findings, c.findings...)
	}
	return ev, nil
}

// check renders and validates one unit.
func check(ctx context.Context, u *render.Unit, keep bool) (*checked, error) {
	out, err := render.Render(ctx, u)
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", u.Path, err)
	}
	c := &checked{hash: u.Hash, findings: out.Findings, heads: make([]render.Head, len(out.Manifests))}
	if keep {
		c.fields = make([][]byte, len(out.Manifests))
	}
	for i := range out.Manifests {
		m := &out.Manifests[i]
		c.heads[i] = m.Head
		c.findings = append(c.findings, validate.Manifest(m)...)
		if keep {
			c.fields[i] = m.JSON
		}
	}
	return c, nil
}

func (e *evaluator) recall(u *render.Unit) *checked {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := e.known[u.Path]; c != nil && c.hash == u.Hash {
		return c
	}
	return nil
}

// remember keeps what was learnt of the units of a tree, without the JSON, and
// forgets the others: the memory is that of one tree.
func (e *evaluator) remember(ev *evaluation) {
	known := make(map[string]*checked, len(ev.units))
	for i, c := range ev.checked {
		if c.fields != nil {
			c = &checked{hash: c.hash, heads: c.heads, findings: c.findings}
		}
		known[ev.units[i].Path] = c
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.known = known
}

// heads are all objects that the tree declares.
func (ev *evaluation) heads() []render.Head {
	var out []render.Head
	for _, c := range ev.checked {
		out = append(out, c.heads...)
	}
	return out
}

// desired is what the planner reads of a unit.
func (ev *evaluation) desired(i int) plan.Unit {
	c := ev.checked[i]
	u := plan.Unit{Path: ev.units[i].Path, Hash: ev.units[i].Hash, Objects: make([]plan.Desired, len(c.heads))}
	for j := range c.heads {
		u.Objects[j].Head = c.heads[j]
		if c.fields != nil {
			u.Objects[j].Fields = c.fields[j]
		}
	}
	return u
}

// load reads the manifests of a unit again.
func (ev *evaluation) load(ctx context.Context, i int) error {
	if ev.checked[i].fields != nil {
		return nil
	}
	c, err := check(ctx, &ev.units[i], true)
	if err != nil {
		return err
	}
	ev.checked[i] = c
	return nil
}

// drop lets go of the JSON of all units.
func (ev *evaluation) drop() {
	for i, c := range ev.checked {
		if c.fields != nil {
			ev.checked[i] = &checked{hash: c.hash, heads: c.heads, findings: c.findings}
		}
	}
}

// locate gives the findings that name a field of an object their exact place.
func (ev *evaluation) locate(ctx context.Context, findings []v1alpha1.Finding) {
	byFile := map[string][]int{}
	for i, f := range findings {
		if f.Field != "" && f.File != "" {
			byFile[f.File] = append(byFile[f.File], i)
		}
	}
	for i := range ev.units {
		if !ev.mentions(i, byFile) {
			continue
		}
		out, err := render.Render(ctx, &ev.units[i])
		if err != nil {
			continue // the place of the object is good enough
		}
		for j := range out.Manifests {
			m := &out.Manifests[j]
			for _, k := range byFile[m.File] {
				if f := &findings[k]; f.Object == m.Object() && f.Line == m.Line {
					if p := render.Locate(m.Expr(), f.Field); p.IsValid() {
						f.File, f.Line, f.Column = p.Filename, p.Line, p.Column
					}
				}
			}
		}
	}
}

func (ev *evaluation) mentions(i int, byFile map[string][]int) bool {
	for _, h := range ev.checked[i].heads {
		if len(byFile[h.File]) > 0 {
			return true
		}
	}
	return false
}

// namespaceExists asks the cluster for a namespace.
func namespaceExists(live plan.Live) func(string) bool {
	r := schema.ByGVK(render.NamespaceKind)
	return func(name string) bool {
		o, ok := live.Get(r, schema.Key{Name: name})
		return ok && o.GetDeletionTimestamp() == nil
	}
}
