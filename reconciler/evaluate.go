package reconciler

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/writ-os/writ/reconciler/health"
	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/policy"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// evaluation is what a tree declares, and what is wrong with it.
type evaluation struct {
	units    []render.Unit
	checked  []*checked // one for each unit
	findings []v1alpha1.Finding
	warnings []v1alpha1.Finding // of policies that only warn
	judge    judge
	health   *health.Rules
	done     time.Time // when all was rendered and validated

	// left are the paths of units that are left out, with what is wrong with
	// them, where the repository goes on without.
	left         map[string]bool
	leftFindings []v1alpha1.Finding
}

// checked is a unit that has been rendered and validated. It is remembered by
// path and hash: a unit that has not changed is not read again.
type checked struct {
	hash     string
	policies string // hash of the policies that it was held against
	kinds    string // hash of the custom kinds, where it depends on them
	unknown  bool   // it has a kind that nobody knows
	heads    []render.Head

	definitions []definition
	findings    []v1alpha1.Finding
	warnings    []v1alpha1.Finding
	fields      [][]byte // JSON of the manifests; nil when it was not kept
}

// evaluator renders and validates trees, and remembers units.
type evaluator struct {
	mu    sync.Mutex
	known map[string]*checked // by path

	memory   render.Memory
	policies *policy.Set // of the last tree
	complain []v1alpha1.Finding
	health   *health.Rules // of the last tree
	unwell   []v1alpha1.Finding

	catalog     *schema.Live // nil: built-in kinds alone
	definitions definitions
}

func newEvaluator() *evaluator { return &evaluator{known: map[string]*checked{}} }

// evaluate reads a tree. keep says of which units the JSON is wanted after.
//
// A commit may define kinds and use them. What depends on custom kinds is
// judged in a second pass, when the definitions of the commit are known.
func (e *evaluator) evaluate(ctx context.Context, t render.Tree, keep func(*render.Unit) bool, options ...render.Options) (*evaluation, error) {
	var o render.Options
	if len(options) > 0 {
		o = options[0]
	}
	catalog := e.catalog.Load()
	ks := e.definitions.kindsOf(catalog, nil)
	given := o.Kinds // of the cluster, for who plans from outside
	o.Memory = &e.memory
	o.Kinds = func(gvk kschema.GroupVersionKind) *schema.Resource {
		if r := ks.find(gvk); r != nil || given == nil {
			return r
		}
		return given(gvk)
	}
	units, findings, err := render.Scan(t, o)
	if err != nil {
		return nil, fmt.Errorf("scan tree: %w", err)
	}
	rules, complaints, err := e.rules(t)
	if err != nil {
		return nil, fmt.Errorf("read policies: %w", err)
	}
	judged, unwell, err := e.healthRules(t)
	if err != nil {
		return nil, fmt.Errorf("read health rules: %w", err)
	}
	findings = append(append(findings, complaints...), unwell...)
	ev := &evaluation{units: units, checked: make([]*checked, len(units)), findings: findings, judge: judge{rules, ks}, health: judged}
	if err := e.pass(ctx, ev, keep, func(c *checked) bool { return c == nil }); err != nil {
		return nil, err
	}
	var defs []definition
	for _, c := range ev.checked {
		defs = append(defs, c.definitions...)
	}
	if ks = e.definitions.kindsOf(catalog, defs); ks.hash != ev.judge.kinds.hash {
		ev.judge.kinds = ks
		if err := e.pass(ctx, ev, keep, func(c *checked) bool { return c.isCustom() && c.kinds != ks.hash }); err != nil {
			return nil, err
		}
	}
	e.remember(ev)
	ev.done = time.Now()
	for _, c := range ev.checked {
		ev.findings = append(ev.findings, c.findings...)
		ev.warnings = append(ev.warnings, c.warnings...)
	}
	return ev, nil
}

// pass renders and validates the units that are due, as far as they are not
// remembered.
func (e *evaluator) pass(ctx context.Context, ev *evaluation, keep func(*render.Unit) bool, due func(*checked) bool) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range ev.units {
		if !due(ev.checked[i]) {
			continue
		}
		u, kept := &ev.units[i], keep(&ev.units[i])
		if c := e.recall(u); c != nil && ev.judge.same(c) && (!kept || len(c.findings) > 0) {
			ev.checked[i] = c
			continue
		}
		g.Go(func() error {
			c, err := check(ctx, u, ev.judge, kept)
			ev.checked[i] = c
			return err
		})
	}
	return g.Wait()
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
		if slices.ContainsFunc(c.findings, dependsOnCluster) {
			continue // the same file may be well the next time
		}
		if c.fields != nil {
			c = c.without()
		}
		known[ev.units[i].Path] = c
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.known = known
}

// without is what is left of a unit without the JSON.
func (c *checked) without() *checked {
	out := *c
	out.fields = nil
	return &out
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
	c, err := check(ctx, &ev.units[i], ev.judge, true)
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
			ev.checked[i] = c.without()
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
