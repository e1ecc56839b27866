package reconciler

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/writ-os/writ/reconciler/health"
	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/policy"
	"github.com/writ-os/writ/reconciler/reference"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/validate"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/podstandard"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// evaluation is what a tree declares, and what is wrong with it, in the hands
// of one goroutine.
type evaluation struct {
	*evaluated
	by       *evaluator
	findings []v1alpha1.Finding
	warnings []v1alpha1.Finding // of policies that only warn
	done     time.Time          // when all was rendered and validated
	loaded   map[string][][]byte

	// left are the paths of units that are left out, with what is wrong with
	// them, where the repository goes on without.
	left         map[string]bool
	leftFindings []v1alpha1.Finding

	// looked are the units that the last plan has looked at, and before the
	// inventories that it was made with; nil: all units.
	looked []plan.Unit
	before *plan.Inventories
}

// checked is what is known of a unit that has been rendered and validated.
type checked struct {
	policies string // hash of the policies that it was held against
	kinds    string // hash of the custom kinds, where it depends on them
	unknown  bool   // it has a kind that nobody knows
	heads    []render.Head
	facts    []*reference.Facts // of each, where there are any; nil: of none
	keys     []string           // of each ConfigMap and Secret; nil: there are none

	definitions []definition
	findings    []v1alpha1.Finding
	warnings    []v1alpha1.Finding

	pods   *pods // nil: no object makes any
	spaces []space
}

// evaluator renders and validates trees, and remembers the last one: what has
// not changed is not read again, nor gone through.
type evaluator struct {
	mu     sync.Mutex
	last   *evaluated
	expiry *time.Timer // of the JSON in last

	memory   render.Memory
	policies *policy.Set // of the last tree
	complain []v1alpha1.Finding
	health   *health.Rules // of the last tree
	unwell   []v1alpha1.Finding
	open     open

	catalog     *schema.Live // nil: built-in kinds alone
	definitions definitions
	security    *podstandard.Judge
}

func newEvaluator() *evaluator { return &evaluator{security: baseline()} }

// evaluate reads a tree. keep says of which units the JSON is wanted after, if
// they are read; nil: of none.
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
		if given != nil {
			if r := given(gvk); r != nil {
				return r // by which the cluster's objects and inventories are found
			}
		}
		return ks.find(gvk)
	}
	before := e.remembered()
	scan, err := render.Read(t, o)
	if err != nil {
		return nil, fmt.Errorf("scan tree: %w", err)
	}
	rules, complaints, err := e.rules(ctx, scan.Rules(), o.Sandbox)
	if err != nil {
		return nil, fmt.Errorf("read policies: %w", err)
	}
	judged, unwell, err := e.healthRules(ctx, scan.Rules(), o.Sandbox)
	if err != nil {
		return nil, fmt.Errorf("read health rules: %w", err)
	}
	p := &pass{scan: scan, judge: judge{rules, ks, e.security}, keep: keep}
	p.begin(before)
	if err := p.run(ctx); err != nil {
		return nil, err
	}
	ks = e.definitions.kindsOf(catalog, p.next.definitions())
	p.judge.kinds = ks
	for u := range p.next.noted.All() {
		if u.isCustom() && u.kinds != ks.hash {
			p.due = append(p.due, u.Unit)
		}
	}
	if err := p.run(ctx); err != nil {
		return nil, err
	}
	next := p.next
	next.refs.settle()
	next.scan, next.judge, next.health, next.json = scan, p.judge, judged, p.json
	next.about = slices.Concat(scan.Findings(), complaints, unwell)
	e.remember(next)
	return e.use(next), nil
}

// use hands out what is known of a tree.
func (e *evaluator) use(next *evaluated) *evaluation {
	ev := &evaluation{evaluated: next, by: e, done: time.Now(), findings: slices.Clone(next.about), loaded: map[string][][]byte{}}
	for u := range next.noted.All() {
		ev.findings = append(ev.findings, u.findings...)
		ev.warnings = append(ev.warnings, u.warnings...)
	}
	return ev
}

func (e *evaluator) remembered() *evaluated {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last
}

// keepJSON is how long the JSON of a commit is kept for who applies it after
// it was looked at.
const keepJSON = time.Minute

// remember takes the place of what was known of the tree before. The JSON is
// soon let go of.
func (e *evaluator) remember(next *evaluated) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last = next
	if e.expiry != nil {
		e.expiry.Stop()
		e.expiry = nil
	}
	if len(next.json) > 0 {
		e.expiry = time.AfterFunc(keepJSON, func() { e.forget(next) })
	}
}

// forget lets go of the JSON of a tree.
func (e *evaluator) forget(next *evaluated) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.last != next {
		return
	}
	e.last = next.without()
	if e.expiry != nil {
		e.expiry.Stop()
		e.expiry = nil
	}
}

// definitions are those of the tree.
func (e *evaluated) definitions() (out []definition) {
	for u := range e.noted.All() {
		out = append(out, u.checked.definitions...)
	}
	return out
}

// pass renders and validates the units of a tree that are due.
type pass struct {
	scan  *render.Scanned
	judge judge
	keep  func(*render.Unit) bool
	due   []*render.Unit
	next  *evaluated
	json  map[string][][]byte
}

// begin takes over what is known of another tree.
func (p *pass) begin(before *evaluated) {
	p.json = map[string][][]byte{}
	var changed []string
	known := before != nil && before.judge.policies.Hash() == p.judge.policies.Hash()
	if known {
		changed, known = p.scan.Since(before.scan)
	}
	if !known {
		p.beginAnew(before)
		return
	}
	p.next = before.clone()
	if len(changed) == 0 {
		maps.Copy(p.json, before.json) // of other trees it is not wanted: it would grow
	}
	for u := range before.noted.All() {
		if slices.ContainsFunc(u.findings, dependsOnCluster) {
			changed = append(changed, u.Path) // it may be well this time
		}
	}
	for _, path := range slices.Compact(slices.Sorted(slices.Values(changed))) {
		p.next.remove(path)
		delete(p.json, path)
		if u, ok := p.scan.Unit(path); ok {
			p.due = append(p.due, u)
		}
	}
}

// beginAnew goes through all units.
func (p *pass) beginAnew(before *evaluated) {
	p.next = newEvaluated()
	for u := range p.scan.Units() {
		if before != nil {
			was, ok := before.unit(u.Path)
			if ok && was.Hash == u.Hash && was.policies == p.judge.policies.Hash() && !slices.ContainsFunc(was.findings, dependsOnCluster) {
				p.next.put(&unit{u, was.checked})
				continue
			}
		}
		p.due = append(p.due, u)
	}
}

// run reads the units that are due.
func (p *pass) run(ctx context.Context) error {
	for units := range slices.Chunk(p.due, together) {
		found := make([]*seen, len(units))
		err := inParallel(ctx, len(units), func(ctx context.Context, i int) (err error) {
			if found[i], err = check(ctx, p.scan, units[i], p.judge); err == nil && (p.keep == nil || !p.keep(units[i])) {
				found[i].json = nil
			}
			return err
		})
		if err != nil {
			return err
		}
		if err := p.judge.ask(ctx, found); err != nil {
			return fmt.Errorf("check policies: %w", err)
		}
		for i, u := range units {
			p.next.put(&unit{u, found[i].checked})
			delete(p.json, u.Path)
			if found[i].json != nil {
				p.json[u.Path] = found[i].json
			}
		}
	}
	p.due = nil
	return nil
}

// together is of how many units the policies are asked in one turn: what is
// open of them is held until then.
const together = 256

func inParallel(ctx context.Context, n int, fn func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		g.Go(func() error { return fn(ctx, i) })
	}
	return g.Wait()
}

// fields is the JSON of the manifests of a unit; nil when it was not read.
func (ev *evaluation) fields(u *unit) [][]byte {
	if json, ok := ev.loaded[u.Path]; ok {
		return json
	}
	return ev.json[u.Path]
}

// load reads the manifests of units again, as far as they are not at hand.
func (ev *evaluation) load(ctx context.Context, units ...*unit) error {
	units = slices.DeleteFunc(slices.Clone(units), func(u *unit) bool { return ev.fields(u) != nil })
	json := make([][][]byte, len(units))
	err := inParallel(ctx, len(units), func(ctx context.Context, i int) error {
		out, err := ev.scan.Render(ctx, units[i].Unit)
		if err != nil {
			return fmt.Errorf("read %s again: %w", units[i].Path, err)
		}
		if len(out.Manifests) != len(units[i].heads) {
			return fmt.Errorf("read %s again: it has %d objects and had %d", units[i].Path, len(out.Manifests), len(units[i].heads))
		}
		json[i] = make([][]byte, len(out.Manifests))
		for j := range out.Manifests {
			json[i][j] = validate.Applied(&out.Manifests[j])
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, u := range units {
		ev.loaded[u.Path] = json[i]
	}
	return nil
}

// drop lets go of the JSON of all units.
func (ev *evaluation) drop() {
	clear(ev.loaded)
	ev.looked, ev.before = nil, nil
	if ev.json != nil {
		ev.by.forget(ev.evaluated)
		ev.evaluated = ev.evaluated.without()
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
	if len(byFile) == 0 || ev.evaluated == nil {
		return
	}
	for u := range ev.units.All() {
		if !slices.ContainsFunc(u.heads, func(h render.Head) bool { return len(byFile[h.File]) > 0 }) {
			continue
		}
		out, err := ev.scan.Render(ctx, u.Unit)
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

// namespaceExists asks the cluster for a namespace.
func namespaceExists(live plan.Live) func(string) bool {
	r := schema.ByGVK(render.NamespaceKind)
	return func(name string) bool {
		o, ok := live.Get(r, schema.Key{Name: name})
		return ok && o.GetDeletionTimestamp() == nil
	}
}
