package reconciler

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/policy"
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
	warnings []v1alpha1.Finding // of policies that only warn
	judge    judge

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

	catalog     *schema.Live // nil: built-in kinds alone
	definitions definitions
}

// judge is what units are held against besides the definitions of their kinds.
type judge struct {
	policies *policy.Set
	kinds    *kinds
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
	o.Memory = &e.memory
	o.Kinds = func(gvk kschema.GroupVersionKind) *schema.Resource { return ks.find(gvk) }
	units, findings, err := render.Scan(t, o)
	if err != nil {
		return nil, fmt.Errorf("scan tree: %w", err)
	}
	rules, complaints, err := e.rules(t)
	if err != nil {
		return nil, fmt.Errorf("read policies: %w", err)
	}
	ev := &evaluation{units: units, checked: make([]*checked, len(units)), findings: append(findings, complaints...), judge: judge{rules, ks}}
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

// same says whether a unit was held against the same as now. One that depends
// on custom kinds may have been judged with those of the commit, which the
// first pass does not know yet.
func (j judge) same(c *checked) bool {
	return c.policies == j.policies.Hash() && (!c.isCustom() || c.kinds == j.kinds.hash)
}

// rules reads the policies of a tree, or remembers them.
func (e *evaluator) rules(t render.Tree) (*policy.Set, []v1alpha1.Finding, error) {
	e.mu.Lock()
	known, complaints := e.policies, e.complain
	e.mu.Unlock()
	set, findings, err := policy.Reload(t, known, complaints)
	if err != nil {
		return nil, nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.policies, e.complain = set, findings
	return set, findings, nil
}

// check renders and validates one unit, and holds it against the policies.
func check(ctx context.Context, u *render.Unit, j judge, keep bool) (*checked, error) {
	out, err := render.Render(ctx, u)
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", u.Path, err)
	}
	c := &checked{hash: u.Hash, policies: j.policies.Hash(), kinds: j.kinds.hash, findings: out.Findings,
		heads: make([]render.Head, len(out.Manifests)), definitions: definitionsIn(out.Manifests)}
	for _, f := range out.Findings {
		c.unknown = c.unknown || f.Rule == "UnknownKind"
	}
	if keep {
		c.fields = make([][]byte, len(out.Manifests))
	}
	for i := range out.Manifests {
		m := &out.Manifests[i]
		c.heads[i] = m.Head
		if m.Resource.Custom != nil {
			c.findings = append(c.findings, validate.Custom(ctx, m, j.kinds.rules(m.Resource))...)
		} else {
			c.findings = append(c.findings, validate.Manifest(m)...)
		}
		if keep {
			c.fields[i] = m.JSON
		}
	}
	told, err := j.policies.Check(ctx, out.Manifests)
	if err != nil {
		return nil, fmt.Errorf("check policies of %s: %w", u.Path, err)
	}
	c.findings, c.warnings = out.Redact(append(c.findings, told.Refused...)), out.Redact(told.Warned)
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
