package reconciler

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/render"
)

// open is which units of a tree are not settled: not as their inventory says,
// or with an object that another repository declares too. It is kept from one
// plan to the next, at the cost of what differs.
type open struct {
	mu     sync.Mutex
	before *plan.Inventories // that were read last
	paths  map[string]struct{}
	// scan and kinds are of the tree that paths are of; nil: there is none.
	scan  *render.Scanned
	kinds string
	// late is how the inventories differ from those that paths are of.
	late plan.Difference
}

// maxLate bounds what is remembered of inventories that nothing is planned by.
const maxLate = 10_000

// inventories are those of the world as it is now.
func (o *open) inventories(w World) *plan.Inventories {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.next(w)
}

func (o *open) next(w World) *plan.Inventories {
	if o.before == nil {
		o.before = plan.NewInventories(w.Repository, w.Inventories)
		return o.before
	}
	next, diff := o.before.Next(w.Inventories)
	o.before = next
	o.late.Files, o.late.Others = append(o.late.Files, diff.Files...), append(o.late.Others, diff.Others...)
	if len(o.late.Files)+len(o.late.Others) > maxLate {
		o.scan, o.late = nil, plan.Difference{}
	}
	return next
}

// settle returns the inventories of the world as it is now, and the paths of
// the units that are not settled by them.
func (o *open) settle(e *evaluated, w World) (*plan.Inventories, []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.next(w)
	var ask []string
	known := o.scan != nil && o.kinds == e.judge.kinds.hash // or units may declare other objects
	if known {
		ask, known = e.scan.Since(o.scan)
	}
	if known {
		ask = slices.Concat(ask, o.late.Files)
		for i := range o.late.Others {
			if ref, ok := plan.RefOf(&o.late.Others[i], e.judge.kinds.find); ok {
				for u := range e.owners(ref) {
					ask = append(ask, u.Path)
				}
			}
		}
	} else {
		ask, o.paths = nil, map[string]struct{}{}
		for u := range e.units.All() {
			ask = append(ask, u.Path)
		}
		for inv := range before.Units() {
			ask = append(ask, inv.Spec.File)
		}
	}
	o.scan, o.kinds, o.late = e.scan, e.judge.kinds.hash, plan.Difference{}
	for _, path := range ask {
		if agrees(e, before, path) {
			delete(o.paths, path)
		} else {
			o.paths[path] = struct{}{}
		}
	}
	return before, slices.Sorted(maps.Keys(o.paths))
}

// agrees says whether a unit is as its inventory says, and nobody else
// declares what it does.
func agrees(e *evaluated, before *plan.Inventories, path string) bool {
	u, declares := e.unit(path)
	declares = declares && len(u.heads) > 0
	inv := before.Unit(path)
	if !declares || inv == nil {
		return !declares && inv == nil
	}
	return inv.Spec.Blob == u.Hash && !slices.ContainsFunc(u.heads, func(h render.Head) bool { return before.Elsewhere(h.Ref) })
}

// look decides which units a plan looks at, and reads those whose manifests it
// needs. Rest stands for the others; nil: there are none.
func (ev *evaluation) look(ctx context.Context, w World) (*plan.Inventories, []plan.Unit, *plan.Rest, error) {
	var touched []render.Ref
	some := false
	if w.touched != nil {
		touched, some = w.touched()
	}
	if !some || w.sweep || len(ev.left) > 0 {
		return ev.lookAtAll(ctx, w, touched)
	}
	before, open := ev.by.open.settle(ev.evaluated, w)
	paths := make(map[string]bool, len(open)) // and whether the manifests are read whatever is live
	for _, path := range open {
		paths[path] = false
	}
	for u := range ev.noted.All() {
		if u.isCustom() { // their events end when their definition goes
			paths[u.Path] = false
		}
	}
	for _, ref := range touched {
		for u := range ev.owners(ref) {
			paths[u.Path] = true
		}
	}
	units := []plan.Unit{}
	rest := &plan.Rest{Objects: ev.objects, Declares: ev.declares, Named: ev.named}
	var load []*unit
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		u, ok := ev.unit(path)
		if !ok {
			units = append(units, plan.Unit{Path: path})
			continue
		}
		rest.Objects -= len(u.heads)
		out := u.desired(ev.fields(u))
		units = append(units, out)
		if paths[path] || plan.Stale(&out, before.Unit(path), w.Live) {
			load = append(load, u)
		}
	}
	for u := range ev.noted.All() {
		if _, looked := paths[u.Path]; looked {
			continue
		}
		for i := range u.heads {
			if len(u.heads[i].DependsOn) > 0 {
				rest.Dependent = append(rest.Dependent, &u.heads[i])
			}
		}
	}
	rest.Heads = ev.except(paths)
	if w.expect != nil {
		if err := w.expect(ctx, headsOf(units)); err != nil {
			return nil, nil, nil, err
		}
	}
	return before, units, rest, ev.fill(ctx, units, load)
}

// except yields what the units declare whose paths are not among those given.
func (ev *evaluation) except(paths map[string]bool) iter.Seq[*render.Head] {
	return func(yield func(*render.Head) bool) {
		for u := range ev.units.All() {
			if _, looked := paths[u.Path]; looked {
				continue
			}
			for i := range u.heads {
				if !yield(&u.heads[i]) {
					return
				}
			}
		}
	}
}

// lookAtAll has the plan look at every unit. The manifests of those that were
// touched are read: that their objects are live is not enough.
func (ev *evaluation) lookAtAll(ctx context.Context, w World, touched []render.Ref) (*plan.Inventories, []plan.Unit, *plan.Rest, error) {
	before := ev.by.open.inventories(w)
	if w.expect != nil {
		if err := w.expect(ctx, ev.kept()); err != nil {
			return nil, nil, nil, err
		}
	}
	read := map[*unit]bool{}
	for _, ref := range touched {
		for u := range ev.owners(ref) {
			read[u] = true
		}
	}
	units := make([]plan.Unit, 0, ev.units.Len())
	var load []*unit
	for u := range ev.units.All() {
		if ev.left[u.Path] {
			continue
		}
		out := u.desired(ev.fields(u))
		if read[u] || plan.Stale(&out, before.Unit(u.Path), w.Live) {
			load = append(load, u)
		}
		units = append(units, out)
	}
	for path := range ev.left {
		units = append(units, plan.Unit{Path: path, Broken: true})
	}
	return before, units, nil, ev.fill(ctx, units, load)
}

// fill reads the manifests of some units, and puts them where they are wanted.
func (ev *evaluation) fill(ctx context.Context, units []plan.Unit, load []*unit) error {
	if err := ev.load(ctx, load...); err != nil {
		return err
	}
	read := make(map[string]*unit, len(load))
	for _, u := range load {
		read[u.Path] = u
	}
	for i := range units {
		if u := read[units[i].Path]; u != nil {
			units[i] = u.desired(ev.fields(u))
		}
	}
	return nil
}

func headsOf(units []plan.Unit) []render.Head {
	var out []render.Head
	for i := range units {
		for j := range units[i].Objects {
			out = append(out, units[i].Objects[j].Head)
		}
	}
	return out
}

// undeclared are the objects that units declared before, and no unit declares
// any more.
func (ev *evaluation) undeclared() []render.Ref {
	var out []render.Ref
	for i := range ev.looked {
		inv := ev.before.Unit(ev.looked[i].Path)
		if inv == nil {
			continue
		}
		for j := range inv.Spec.Objects {
			if ref, ok := plan.RefOf(&inv.Spec.Objects[j], ev.judge.kinds.find); ok && !ev.declares(ref) {
				out = append(out, ref)
			}
		}
	}
	return out
}
