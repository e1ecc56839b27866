package reconciler

import (
	"cmp"
	"slices"
	"strings"

	"github.com/writ-os/writ/reconciler/policy"
	"github.com/writ-os/writ/reconciler/reference"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/sortedset"
	"github.com/writ-os/writ/schema/v1alpha1"
	schemavalidate "github.com/writ-os/writ/schema/validate"
)

// references are what the objects of a tree say of each other. Like the tree
// they are made of another's at the cost of what differs.
type references struct {
	// wants are all references, by what they are to; open are those to what the
	// tree does not declare, lacking those to what has no such key.
	wants, open, lacking *sortedset.Set[want]
	joins                *sortedset.Set[join]       // by namespace
	spaces               *sortedset.Set[neighbours] // by name
	shifted              map[string]*shift          // namespaces whose space may not be of this tree
}

// want is one reference of an object.
type want struct {
	to    render.Ref
	unit  *unit
	at, n int // which object of the unit, and which need of it
}

func (w *want) need() *reference.Need { return &w.unit.facts[w.at].Needs[w.n] }
func (w *want) head() *render.Head    { return &w.unit.heads[w.at] }

// join is an object that is held against others of its namespace.
type join struct {
	namespace string
	unit      *unit
	at        int
}

// neighbours is what is suspect in a namespace.
type neighbours struct {
	name     string
	suspects []reference.Suspect
}

// shift is what has left a namespace and what has come.
type shift struct{ gone, come []join }

func newReferences() references {
	byTarget := func(a, b want) bool {
		return cmp.Or(compareRefs(a.to, b.to), strings.Compare(a.unit.Path, b.unit.Path), cmp.Compare(a.at, b.at), cmp.Compare(a.n, b.n)) < 0
	}
	return references{wants: sortedset.New(byTarget), open: sortedset.New(byTarget), lacking: sortedset.New(byTarget), shifted: map[string]*shift{},
		joins: sortedset.New(func(a, b join) bool {
			return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.unit.Path, b.unit.Path), cmp.Compare(a.at, b.at)) < 0
		}),
		spaces: sortedset.New(func(a, b neighbours) bool { return a.name < b.name })}
}

func (r *references) clone() references {
	return references{wants: r.wants.Clone(), open: r.open.Clone(), lacking: r.lacking.Clone(), joins: r.joins.Clone(), spaces: r.spaces.Clone(), shifted: map[string]*shift{}}
}

// to yields the references to an object.
func (r *references) to(ref render.Ref) []want {
	var out []want
	for w := range r.wants.From(want{to: ref, unit: at("")}) {
		if compareRefs(w.to, ref) != 0 {
			break
		}
		out = append(out, w)
	}
	return out
}

// of yields the references and joins of a unit.
func (u *unit) of(each func(want), joins func(join)) {
	for i, f := range u.facts {
		if f == nil {
			continue
		}
		for n := range f.Needs {
			each(want{f.Needs[n].Ref, u, i, n})
		}
		if f.Joins() {
			joins(join{u.heads[i].Key.Namespace, u, i})
		}
	}
}

// putReferences notes what a unit says of other objects. It is asked when its
// own objects are declared.
func (e *evaluated) putReferences(u *unit) {
	u.of(func(w want) {
		e.refs.wants.Put(w)
		if !e.declares(w.to) {
			e.refs.open.Put(w)
		}
		e.holdKey(w)
	}, func(j join) {
		e.refs.joins.Put(j)
		sh := e.refs.shift(j.namespace)
		sh.come = append(sh.come, j)
	})
}

func (e *evaluated) removeReferences(u *unit) {
	u.of(func(w want) {
		e.refs.wants.Delete(w)
		e.refs.open.Delete(w)
		e.refs.lacking.Delete(w)
	}, func(j join) {
		e.refs.joins.Delete(j)
		sh := e.refs.shift(j.namespace)
		sh.gone = append(sh.gone, j)
	})
}

// declare closes the references to an object; undeclare opens them.
func (r *references) declare(ref render.Ref) {
	for _, w := range r.to(ref) {
		r.open.Delete(w)
	}
}

func (r *references) undeclare(ref render.Ref) {
	for _, w := range r.to(ref) {
		r.open.Put(w)
	}
}

func (r *references) shift(namespace string) *shift {
	sh := r.shifted[namespace]
	if sh == nil {
		sh = &shift{}
		r.shifted[namespace] = sh
	}
	return sh
}

// settle holds the objects against each other of the namespaces in which
// something has changed that matters for that. Most commits change an image or a
// value, and cost what they change, however many objects a namespace has.
func (r *references) settle() {
	for name, sh := range r.shifted {
		was, _ := r.spaces.Get(neighbours{name: name})
		if sh.same(was.suspects) {
			continue
		}
		if s := reference.Space(r.entries(name)); len(s) > 0 {
			r.spaces.Put(neighbours{name, s})
		} else {
			r.spaces.Delete(neighbours{name: name})
		}
	}
	r.shifted = nil
}

// same says whether what has come says the same as what is gone, and none of it
// is suspect: what is said of a suspect has its place in it.
func (sh *shift) same(suspects []reference.Suspect) bool {
	if len(sh.gone) != len(sh.come) {
		return false
	}
	byRef := func(a, b join) int { return compareRefs(a.unit.heads[a.at].Ref, b.unit.heads[b.at].Ref) }
	slices.SortFunc(sh.gone, byRef)
	slices.SortFunc(sh.come, byRef)
	for i, j := range sh.gone {
		now := sh.come[i]
		if byRef(j, now) != 0 || !j.unit.facts[j.at].Same(now.unit.facts[now.at]) {
			return false
		}
	}
	return !slices.ContainsFunc(suspects, func(s reference.Suspect) bool {
		_, changed := slices.BinarySearchFunc(sh.gone, s.Head.Ref, func(j join, ref render.Ref) int { return compareRefs(j.unit.heads[j.at].Ref, ref) })
		return changed
	})
}

// entries are the objects of a namespace that are held against others; those
// of the cluster are in "".
func (r *references) entries(namespace string) []reference.Entry {
	var out []reference.Entry
	for j := range r.joins.From(join{namespace: namespace, unit: at("")}) {
		if j.namespace != namespace {
			break
		}
		out = append(out, reference.Entry{Head: &j.unit.heads[j.at], Facts: j.unit.facts[j.at]})
	}
	return out
}

// speaksOf says which references of the tree lead nowhere, as its owner wants
// them to be taken: refused, or warned of.
func (ev *evaluation) speaksOf(c *cluster) (refused, warned []v1alpha1.Finding) {
	tell := func(h *render.Head, f v1alpha1.Finding, certain bool) {
		switch ev.judge.policies.Severity(f.Rule, h, policy.Warn) {
		case policy.Refuse:
			if certain {
				refused = append(refused, f)
				return
			}
			fallthrough
		case policy.Warn:
			warned = append(warned, f)
		}
	}
	known := map[string][]reference.Entry{}
	entries := func(namespace string) []reference.Entry {
		if _, ok := known[namespace]; !ok {
			known[namespace] = ev.refs.entries(namespace)
		}
		return known[namespace]
	}
	for w := range ev.refs.open.All() {
		if ev.left[w.unit.Path] || c.has(w.to) || w.need().May(entries(w.to.Key.Namespace)) || w.to.Resource.Kind == "StorageClass" && (classed(entries(""), w.to.Key.Name) || c.classed(w.to.Key.Name)) {
			continue
		}
		f := w.need().Missing(w.head(), c != nil)
		if len(refused)+len(warned) < maxMeant {
			f.Hint = meant(w.to.Key.Name, ev.namesBeside(w.to))
		}
		tell(w.head(), f, c != nil)
	}
	for w, f := range ev.lacks(c, entries) {
		if len(refused)+len(warned) >= maxMeant {
			f.Hint = ""
		}
		tell(w.head(), f, c != nil)
	}
	for w, f := range ev.reversed(c) {
		tell(w.head(), f, c != nil)
	}
	for s := range ev.refs.spaces.All() {
		for _, suspect := range s.suspects {
			if d, ok := ev.first(suspect.Head.Ref); ok && ev.left[d.Path] || c.selects(s.name, suspect.Selector) {
				continue
			}
			tell(suspect.Head, suspect.Finding, c != nil || suspect.Selector == nil)
		}
	}
	return refused, warned
}

// first is the unit that declares an object.
func (e *evaluated) first(ref render.Ref) (*unit, bool) {
	for u := range e.owners(ref) {
		return u, true
	}
	return nil, false
}

// maxMeant bounds how many missing objects have a hint.
const maxMeant = 20

// maxBeside bounds among how many names one is looked for that was meant.
const maxBeside = 1000

// namesBeside are the names of the objects of the kind and namespace of one.
func (e *evaluated) namesBeside(ref render.Ref) []string {
	var out []string
	from := ref
	from.Key.Name = ""
	for d := range e.declared.From(declaration{&render.Head{Ref: from}, at(""), 0}) {
		if d.Resource.Kind != ref.Resource.Kind || d.Key.Namespace != ref.Key.Namespace || len(out) >= maxBeside {
			break
		}
		out = append(out, d.Key.Name)
	}
	return out
}

// classed says whether a volume is of a class: then claims of that class need
// nobody who makes volumes for them.
func classed(entries []reference.Entry, class string) bool {
	return slices.ContainsFunc(entries, func(e reference.Entry) bool { return e.Facts.Class == class })
}

// meant is a hint at the name that was probably meant; "" where none is near.
func meant(name string, names []string) string { return schemavalidate.DidYouMean(name, names) }
