package plan

import (
	"iter"
	"slices"

	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// computation is the state of one Compute.
type computation struct {
	in      Input
	plan    *Plan
	before  *Inventories
	desired map[render.Ref]*Desired
	pruned  map[render.Ref]bool
	// alongside is how many objects go with those that the plan deletes.
	alongside int
}

func newComputation(in Input) *computation {
	c := &computation{in: in, plan: &Plan{}, before: in.Before, desired: map[render.Ref]*Desired{}, pruned: map[render.Ref]bool{}}
	if c.before == nil {
		c.before = NewInventories(in.Repository, in.Inventories)
	}
	return c
}

// mine is what the repository declared before, others what another one
// declares.
func (c *computation) mine(ref render.Ref) (declared, bool)   { return find(c.before.mine, ref) }
func (c *computation) others(ref render.Ref) (declared, bool) { return find(c.before.others, ref) }

// declares says whether the commit declares an object.
func (c *computation) declares(ref render.Ref) bool {
	return c.desired[ref] != nil || c.in.Rest != nil && c.in.Rest.Declares(ref)
}

// Drift decides only about the objects of in.Units, which were as declared
// once: what has changed live since, or is gone, is put back. Nothing else is
// deleted or written, and objects that are being deleted are left to end.
func Drift(in Input) *Plan {
	c := newComputation(in)
	for i := range in.Units {
		for j := range in.Units[i].Objects {
			d := &in.Units[i].Objects[j]
			if live, ok := in.Live.Get(d.Resource, d.Key); !ok || live.GetDeletionTimestamp() == nil {
				c.object(d)
				for _, name := range d.DependsOn {
					c.elsewhere(name)
				}
			}
		}
	}
	slices.SortStableFunc(c.plan.Ops, order)
	return c.plan
}

// RefOf returns the object that an inventory names; false for a kind that is
// not known. kinds finds those that are not built in; nil: there are none.
func RefOf(o *v1alpha1.InventoryObject, kinds Kinds) (render.Ref, bool) {
	r := schema.ByGVK(kindOf(o))
	if r == nil && kinds != nil {
		r = kinds(kindOf(o))
	}
	return render.Ref{Resource: r, Key: schema.Key{Namespace: o.Namespace, Name: o.Name}}, r != nil
}

// object decides about one declared object.
func (c *computation) object(d *Desired) {
	c.plan.Declared++
	c.desired[d.Ref] = d
	if other, ok := c.others(d.Ref); ok && !c.keeps(d, other) {
		return
	}
	if d.Masked || c.in.Unreadable != nil && c.in.Unreadable(d.Resource) {
		c.unreadable(d)
		return
	}
	live, exists := c.in.Live.Get(d.Resource, d.Key)
	switch {
	case exists && d.Fields == nil:
		c.plan.Unchanged++
	case d.Fields == nil:
		c.find(d.Head, "", "Internal", "is not live, and its manifest was not read", "")
	default:
		c.compare(d, live, exists)
	}
}

// compare decides about an object whose manifest and live state are known.
func (c *computation) compare(d *Desired, live schema.Object, exists bool) {
	o, err := c.decode(d)
	if err != nil {
		c.find(d.Head, "", "WrongType", err.Error(), "")
		return
	}
	op := Op{Action: Create, Head: d.Head, Object: o, Fields: d.Fields}
	if !exists {
		c.plan.Ops = append(c.plan.Ops, op)
		return
	}
	rules := rulesFor(c.in.Ignore, d.Ref)
	found, err := c.differences(d, o, live, rules)
	if err != nil {
		c.find(d.Head, "", "Internal", "cannot be compared with the live object: "+err.Error(), "")
		return
	}
	c.plan.note(d.Ref, found.undeclared)
	if len(rules) > 0 {
		if found, err = ignore(rules, d, found, live); err != nil {
			c.find(d.Head, "", "Internal", "fields cannot be ignored: "+err.Error(), "")
			return
		}
		op.Fields = found.fields
		if op.Object, err = c.decode(&Desired{Head: d.Head, Fields: op.Fields}); err != nil {
			c.find(d.Head, "", "Internal", err.Error(), "")
			return
		}
	}
	if len(found.changes) == 0 && found.owned {
		c.leftover(&op, d, live, found.undeclared)
		return
	}
	op.Action, op.Diffs = Update, show(&d.Head, found.changes)
	c.adopts(d, live, found.owned)
	if fixed := immutable(d, live, found.changes); len(fixed) > 0 {
		c.replace(d, &op, live, fixed)
	}
	c.restarts(op, live)
	c.plan.Ops = append(c.plan.Ops, op)
}

// unreadable compares an object that may not be read by the hash that the
// inventory keeps.
func (c *computation) unreadable(d *Desired) {
	before, known := c.mine(d.Ref)
	switch {
	case known && before.Hash == d.Hash:
		c.plan.Unchanged++
	case known:
		c.plan.Ops = append(c.plan.Ops, Op{Action: Update, Head: d.Head, Fields: d.Fields, Diffs: []Diff{{Path: "", Old: hidden, New: hidden}}})
	default:
		c.plan.Ops = append(c.plan.Ops, Op{Action: Create, Head: d.Head, Fields: d.Fields})
	}
}

// prune deletes what the repository declared before and does not any more, and
// the inventories of units that are gone.
func (c *computation) prune() {
	if c.anyBroken() {
		return
	}
	left := c.declaring()
	for inv := range c.inventories() {
		for i := range inv.Spec.Objects {
			if ref, ok := RefOf(&inv.Spec.Objects[i], c.in.Kinds); ok {
				c.pruneObject(ref, declared{&inv.Spec.Objects[i], inv})
			}
		}
		if !left[inv.Spec.File] {
			c.plan.Inventories = append(c.plan.Inventories, InventoryOp{Name: inv.Name, ResourceVersion: inv.ResourceVersion})
		}
	}
	sortInventories(c.plan.Inventories)
}

// inventories yields those that may have declared what is not declared any
// more.
func (c *computation) inventories() iter.Seq[*v1alpha1.Inventory] {
	if c.in.Rest == nil {
		return c.before.Units()
	}
	return func(yield func(*v1alpha1.Inventory) bool) {
		for i := range c.in.Units {
			if inv := c.before.Unit(c.in.Units[i].Path); inv != nil && !yield(inv) {
				return
			}
		}
	}
}

func (c *computation) pruneObject(ref render.Ref, was declared) {
	if c.pruned[ref] || c.declares(ref) {
		return
	}
	c.pruned[ref] = true
	if _, moved := c.others(ref); moved {
		return
	}
	live, exists := schema.Object(nil), true
	if c.in.Unreadable == nil || !c.in.Unreadable(ref.Resource) {
		live, exists = c.in.Live.Get(ref.Resource, ref.Key)
	}
	if !exists || live != nil && live.GetDeletionTimestamp() != nil || c.kept(ref, was, live) {
		return
	}
	c.plan.Ops = append(c.plan.Ops, Op{Action: Delete, Head: render.Head{Ref: ref, File: was.file(), Line: was.Line, Hash: was.Hash}})
	c.losses(ref, live)
}

func (c *computation) anyBroken() bool {
	return slices.ContainsFunc(c.in.Units, func(u Unit) bool { return u.Broken })
}

// declaring are the paths of the units that declare something.
func (c *computation) declaring() map[string]bool {
	paths := make(map[string]bool, len(c.in.Units))
	for i := range c.in.Units {
		if u := &c.in.Units[i]; len(u.Objects) > 0 {
			paths[u.Path] = true
		}
	}
	return paths
}

func (c *computation) find(h render.Head, field, rule, message, hint string) {
	c.plan.Findings = append(c.plan.Findings, v1alpha1.Finding{File: h.File, Line: h.Line, Column: h.Column,
		Object: h.Object(), Field: field, Rule: rule, Message: message, Hint: hint})
}
