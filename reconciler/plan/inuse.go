package plan

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// maxUses is how many of the objects that need another a finding names.
const maxUses = 5

// use is a declared object that needs another one to be there.
type use struct {
	name, file, repository string
	line, column           int
}

// inUse refuses a commit that no longer declares what declared objects live
// in: Kubernetes deletes the contents of a Namespace with it, and the objects
// of a kind with its CustomResourceDefinition. Nothing lifts it, for such a
// commit contradicts itself.
func (c *computation) inUse() {
	for i := range c.plan.Ops {
		op := &c.plan.Ops[i]
		holds, what := holder(op.Ref)
		if op.Action != Delete || holds == nil {
			continue
		}
		uses := c.uses(holds)
		if len(uses) == 0 {
			continue
		}
		first := uses[0]
		if first.repository != "" {
			first = use{file: op.File, line: op.Line}
		}
		c.plan.Findings = append(c.plan.Findings, v1alpha1.Finding{File: first.file, Line: first.line, Column: first.column, Object: op.Ref.String(), Rule: "InUse",
			Message: fmt.Sprintf("%s %s is no longer declared, but %s: %s", op.Resource.Kind, op.Key.Name, counting(len(uses), what), listed(uses)),
			Hint:    fmt.Sprintf("keep the %s (it was declared in %s:%d), or remove them too", op.Resource.Kind, op.File, op.Line)})
	}
}

// holder says which objects cannot be without another; nil: they can.
func holder(ref render.Ref) (holds func(*schema.Resource, schema.Key) bool, what string) {
	switch {
	case ref.Resource.Group == "" && ref.Resource.Kind == "Namespace":
		return func(r *schema.Resource, key schema.Key) bool { return r.Namespaced && key.Namespace == ref.Key.Name }, "in it"
	case ref.Resource.Group == "apiextensions.k8s.io" && ref.Resource.Kind == "CustomResourceDefinition":
		return func(r *schema.Resource, _ schema.Key) bool {
			return r.Custom != nil && r.Plural+"."+r.Group == ref.Key.Name
		}, "of its kind"
	}
	return nil, ""
}

// uses are the declared objects that a function holds for: those of the commit
// first, then those of other repositories, each in the order of the files.
func (c *computation) uses(holds func(*schema.Resource, schema.Key) bool) []use {
	var out []use
	for h := range c.heads() {
		if holds(h.Resource, h.Key) {
			out = append(out, use{name: h.Object(), file: h.File, line: h.Line, column: h.Column})
		}
	}
	for d := range c.before.others.All() {
		ref, ok := RefOf(d.InventoryObject, c.in.Kinds)
		if ok && holds(ref.Resource, ref.Key) && !c.declares(ref) {
			out = append(out, use{name: ref.String(), file: d.file(), line: d.Line, repository: d.in.Spec.Repository})
		}
	}
	slices.SortStableFunc(out, func(a, b use) int {
		return cmp.Or(strings.Compare(a.repository, b.repository), strings.Compare(a.file, b.file), cmp.Compare(a.line, b.line))
	})
	return out
}

// heads yields every object that the commit declares.
func (c *computation) heads() iter.Seq[*render.Head] {
	return func(yield func(*render.Head) bool) {
		for i := range c.in.Units {
			for j := range c.in.Units[i].Objects {
				if !yield(&c.in.Units[i].Objects[j].Head) {
					return
				}
			}
		}
		if c.in.Rest == nil || c.in.Rest.Heads == nil {
			return
		}
		for h := range c.in.Rest.Heads {
			if !yield(h) {
				return
			}
		}
	}
}

// listed names some of the uses, with their places.
func listed(uses []use) string {
	var b strings.Builder
	for i, u := range uses {
		if i == maxUses {
			fmt.Fprintf(&b, " and %d more", len(uses)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s (%s:%d", u.name, u.file, u.line)
		if u.repository != "" {
			b.WriteString(" of the repository " + u.repository)
		}
		b.WriteString(")")
	}
	return b.String()
}

// counting is "1 object in it is" or "3 objects in it are".
func counting(n int, what string) string {
	if n == 1 {
		return "1 object " + what + " is"
	}
	return fmt.Sprintf("%d objects %s are", n, what)
}
