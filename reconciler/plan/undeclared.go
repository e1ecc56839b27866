package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/merge"
)

// Undeclared is a field of a live object that Git leaves out and somebody has
// set. Healing leaves it alone, since fields that Git leaves out are others' to
// write; but what a person has added by break-glass (a sidecar, a variable)
// stays until somebody sees it.
type Undeclared struct {
	Path    string    // the highest field of which Git declares nothing
	Manager string    // who set it, as managedFields says
	Time    time.Time // when; zero: not known

	path  fieldpath.Path
	value value.Value
}

// Text says who has set the field, and when.
func (u *Undeclared) Text() string {
	text := u.Path + " by " + u.Manager
	if !u.Time.IsZero() {
		text += " at " + u.Time.UTC().Format(time.RFC3339)
	}
	return text
}

// loops says whether a field manager is a loop of the server: those that name
// none are recorded by their user, and others have names of their own. What
// they write into objects of Git is theirs to write. Of an object that was there
// before anybody kept book nobody knows who set what.
func loops(manager string) bool {
	return manager == Manager || manager == "before-first-apply" || strings.HasPrefix(manager, "system:") || strings.HasPrefix(manager, "writ-") || strings.HasPrefix(manager, "kube-")
}

// undeclared finds the fields of a live object that others have set beside what
// Git declares, and that are not what an object has of itself. rules name what
// others may set. have and want are the live object and the declared one with
// the defaults of their kind.
func undeclared(live schema.Object, mine *fieldpath.Set, have, want value.Value, rules []merge.Pointer) (out []Undeclared, err error) {
	for _, m := range live.GetManagedFields() {
		if m.Subresource != "" || m.FieldsV1 == nil || loops(m.Manager) {
			continue
		}
		set := fieldpath.NewSet()
		if err := set.FromJSON(bytes.NewReader(m.FieldsV1.GetRawBytes())); err != nil {
			return nil, fmt.Errorf("read managed fields: %w", err)
		}
		for p := range set.Leaves().All() {
			p = highest(p, mine)
			if mine.Has(p) || identity.Has(p) || outside(p) || slices.ContainsFunc(out, func(u Undeclared) bool { return under(p, u.path) }) {
				continue
			}
			is, should := lookup(have, p), lookup(want, p)
			if is == nil || should != nil && value.Equals(is, should) {
				continue
			}
			if _, ignored := matching(rules, p); ignored {
				continue
			}
			u := Undeclared{Path: pathText(p), Manager: m.Manager, path: p.Copy(), value: is}
			if m.Time != nil {
				u.Time = m.Time.Time
			}
			out = append(out, u)
		}
	}
	slices.SortFunc(out, func(a, b Undeclared) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

// highest is the field, or the item of a list that it is in and of which Git has
// nothing: a container, and not each of its fields. Maps are no item: they hold
// what loops write beside what people do.
func highest(p fieldpath.Path, mine *fieldpath.Set) fieldpath.Path {
	for n := 1; n < len(p); n++ {
		if above := p[:n]; above[n-1].Key != nil && !mine.Has(above) && !declaredBelow(mine, above) {
			return above
		}
	}
	return p
}

// outside says whether a field is the server's own.
func outside(p fieldpath.Path) bool {
	if len(p) == 0 || p[0].FieldName == nil {
		return true
	}
	switch *p[0].FieldName {
	case "status":
		return true
	case "metadata":
		return len(p) < 2 || p[1].FieldName == nil || *p[1].FieldName != "labels" && *p[1].FieldName != "annotations"
	}
	return false
}

// takeBack is the live object without what others have added to it.
func takeBack(d *Desired, live schema.Object, found []Undeclared) (schema.Object, error) {
	types := merge.Types(d.Resource)
	live, err := inVersion(d.Resource, live.DeepCopyObject().(schema.Object))
	if err != nil {
		return nil, err
	}
	t, err := types.ObjectToTyped(live, typed.AllowDuplicates)
	if err != nil {
		return nil, err
	}
	set := fieldpath.NewSet()
	for i := range found {
		set.Insert(found[i].path)
	}
	data, err := json.Marshal(t.RemoveItems(set).AsValue().Unstructured())
	if err != nil {
		return nil, err
	}
	o := d.Resource.New()
	if err := json.Unmarshal(data, o); err != nil {
		return nil, err
	}
	o.GetObjectKind().SetGroupVersionKind(d.Resource.GVK())
	complete(d.Resource, o)
	return o, nil
}

// leftover decides about what others have added to an object that is as
// declared otherwise: it is taken back where the repository says so. The spec of
// a Pod cannot be changed, so there it is only told of.
func (c *computation) leftover(op *Op, d *Desired, live schema.Object, found []Undeclared) {
	if !c.in.TakeBack || len(found) == 0 || d.Resource.Kind == "Pod" {
		c.plan.Unchanged++
		return
	}
	o, err := takeBack(d, live, found)
	if err != nil {
		c.find(d.Head, "", "Internal", "what others have added cannot be taken back: "+err.Error(), "")
		return
	}
	op.Action, op.Object, op.Fields, op.Whole = Update, o, nil, true
	op.Diffs = show(&d.Head, changesOf(found))
	c.restarts(*op, live)
	c.plan.Ops = append(c.plan.Ops, *op)
}

func changesOf(found []Undeclared) []change {
	out := make([]change, len(found))
	for i := range found {
		out[i] = change{found[i].path, found[i].value, nil}
	}
	return out
}
