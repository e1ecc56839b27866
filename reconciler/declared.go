package reconciler

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/reconciler/health"
	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/sortedset"
	"github.com/writ-os/writ/reconciler/validate"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// unit is a unit that has been rendered and validated.
type unit struct {
	*render.Unit
	*checked
}

// declaration is an object that a unit declares.
type declaration struct {
	*render.Head
	unit *unit
	at   int // among those of the unit
}

// namespaceUse is how many objects are declared in a namespace.
type namespaceUse struct {
	name string
	n    int
}

// evaluated is what a tree declares, unit by unit and all together. One is made
// of another at the cost of what differs; after that it never changes, and may
// be used by several goroutines.
type evaluated struct {
	scan   *render.Scanned
	judge  judge
	health *health.Rules
	about  []v1alpha1.Finding // the tree and its rules

	units    *sortedset.Set[*unit]       // by path
	noted    *sortedset.Set[*unit]       // those that are not without a word
	declared *sortedset.Set[declaration] // by object; those of one name lie together
	in       *sortedset.Set[namespaceUse]
	objects  int
	twice    int // objects that are declared more than once
	refs     references

	// json is the JSON of the units that were read for this tree, by path, as
	// long as a plan may want it.
	json map[string][][]byte
}

func newEvaluated() *evaluated {
	byPath := func(a, b *unit) bool { return a.Path < b.Path }
	return &evaluated{refs: newReferences(), units: sortedset.New(byPath), noted: sortedset.New(byPath), in: sortedset.New(func(a, b namespaceUse) bool { return a.name < b.name }),
		declared: sortedset.New(func(a, b declaration) bool {
			return cmp.Or(compareRefs(a.Ref, b.Ref), strings.Compare(a.unit.Path, b.unit.Path), cmp.Compare(a.at, b.at)) < 0
		})}
}

func (e *evaluated) clone() *evaluated {
	out := *e
	out.units, out.noted, out.declared, out.in, out.json = e.units.Clone(), e.noted.Clone(), e.declared.Clone(), e.in.Clone(), nil
	out.refs = e.refs.clone()
	return &out
}

// without is the same but for the JSON.
func (e *evaluated) without() *evaluated {
	out := *e
	out.json = nil
	return &out
}

func compareRefs(a, b render.Ref) int {
	return cmp.Or(strings.Compare(a.Resource.Kind, b.Resource.Kind), strings.Compare(a.Key.Namespace, b.Key.Namespace), strings.Compare(a.Key.Name, b.Key.Name),
		strings.Compare(a.Resource.Group, b.Resource.Group), strings.Compare(a.Resource.Version, b.Resource.Version))
}

// put adds a unit, in the place of the one before.
func (e *evaluated) put(u *unit) {
	e.remove(u.Path)
	e.units.Put(u)
	if u.remarkable() {
		e.noted.Put(u)
	}
	for i := range u.heads {
		h := &u.heads[i]
		if e.declares(h.Ref) {
			e.twice++
		} else {
			e.refs.declare(h.Ref)
		}
		e.declared.Put(declaration{h, u, i})
		e.use(h, 1)
	}
	e.objects += len(u.heads)
	e.putReferences(u)
	e.holdKeys(u)
}

func (e *evaluated) remove(path string) {
	u, ok := e.units.Delete(at(path))
	if !ok {
		return
	}
	e.noted.Delete(u)
	e.removeReferences(u)
	for i := range u.heads {
		h := &u.heads[i]
		e.declared.Delete(declaration{h, u, i})
		if e.declares(h.Ref) {
			e.twice--
		} else {
			e.refs.undeclare(h.Ref)
		}
		e.use(h, -1)
	}
	e.objects -= len(u.heads)
	e.holdKeys(u)
}

// at is a unit to look another up by.
func at(path string) *unit { return &unit{Unit: &render.Unit{Path: path}} }

func (e *evaluated) use(h *render.Head, n int) {
	if !h.Resource.Namespaced || validate.Everywhere(h.Key.Namespace) {
		return
	}
	u, _ := e.in.Get(namespaceUse{name: h.Key.Namespace})
	if u.n += n; u.n > 0 {
		e.in.Put(namespaceUse{h.Key.Namespace, u.n})
	} else {
		e.in.Delete(namespaceUse{name: h.Key.Namespace})
	}
}

// unit returns the unit of a path.
func (e *evaluated) unit(path string) (*unit, bool) { return e.units.Get(at(path)) }

// owners yields who declares an object: one, in a tree without findings.
func (e *evaluated) owners(ref render.Ref) iter.Seq[*unit] {
	return func(yield func(*unit) bool) {
		for d := range e.declared.From(declaration{&render.Head{Ref: ref}, at(""), 0}) {
			if compareRefs(d.Ref, ref) != 0 || !yield(d.unit) {
				return
			}
		}
	}
}

func (e *evaluated) declares(ref render.Ref) bool {
	for range e.owners(ref) {
		return true
	}
	return false
}

// named says whether an object of a name is declared: Kind/namespace/name, or
// Kind/name.
func (e *evaluated) named(name string) bool {
	kind, key, _ := strings.Cut(name, "/")
	ref := render.Ref{Resource: &schema.Resource{Kind: kind}, Key: schema.ParseKey(key)}
	for d := range e.declared.From(declaration{&render.Head{Ref: ref}, at(""), 0}) {
		return d.Resource.Kind == kind && d.Key == ref.Key
	}
	return false
}

// namespaces are those that objects are declared in.
func (e *evaluated) namespaces() []string {
	out := []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease}
	for u := range e.in.All() {
		out = append(out, u.name)
	}
	return out
}

// podKinds are the kinds that are pods or make them.
var podKinds = []string{"CronJob", "DaemonSet", "Deployment", "Job", "Pod", "PodTemplate", "ReplicaSet", "ReplicationController", "StatefulSet"}

// podsIn yields the objects of a namespace that are pods or make them.
func (e *evaluated) podsIn(namespace string) iter.Seq2[*unit, int] {
	return func(yield func(*unit, int) bool) {
		for _, kind := range podKinds {
			first := render.Ref{Resource: &schema.Resource{Kind: kind}, Key: schema.Key{Namespace: namespace}}
			for d := range e.declared.From(declaration{&render.Head{Ref: first}, at(""), 0}) {
				if d.Resource.Kind != kind || d.Key.Namespace != namespace {
					break
				}
				if d.unit.pods != nil && slices.Contains(d.unit.pods.makes, d.at) && !yield(d.unit, d.at) {
					return
				}
			}
		}
	}
}

// together says what is wrong with the objects of the tree as a whole.
func (e *evaluated) together(exists func(namespace string) bool) []v1alpha1.Finding {
	if e.twice == 0 && !e.astray(exists) {
		return nil
	}
	return validate.Objects(e.heads(), exists)
}

// astray says whether objects are in a namespace that is neither declared nor
// there.
func (e *evaluated) astray(exists func(namespace string) bool) bool {
	if exists == nil {
		return false
	}
	r := schema.ByGVK(render.NamespaceKind)
	for u := range e.in.All() {
		if !e.declares(render.Ref{Resource: r, Key: schema.Key{Name: u.name}}) && !exists(u.name) {
			return true
		}
	}
	return false
}

// heads are all objects that the tree declares.
func (e *evaluated) heads() []render.Head {
	out := make([]render.Head, 0, e.objects)
	for u := range e.units.All() {
		out = append(out, u.heads...)
	}
	return out
}

// remarkable says whether anything has to be known of a unit beyond what it
// declares.
func (c *checked) remarkable() bool {
	return len(c.findings) > 0 || len(c.warnings) > 0 || len(c.definitions) > 0 || c.isCustom() || c.placed() ||
		c.pods != nil && c.pods.usual
}

// placed says whether an object of a unit waits for others.
func (c *checked) placed() bool {
	return slices.ContainsFunc(c.heads, func(h render.Head) bool { return h.Wave != 0 || len(h.DependsOn) > 0 })
}

// anyPlaced says whether any object of the tree waits for others.
func (e *evaluated) anyPlaced() bool {
	for u := range e.noted.All() {
		if u.placed() {
			return true
		}
	}
	return false
}

// anyCustom says whether any object of the tree is of a custom kind.
func (e *evaluated) anyCustom() bool {
	for u := range e.noted.All() {
		if u.isCustom() {
			return true
		}
	}
	return false
}

// desired is what the planner reads of a unit.
func (u *unit) desired(json [][]byte) plan.Unit {
	out := plan.Unit{Path: u.Path, Hash: u.Hash, Objects: make([]plan.Desired, len(u.heads))}
	for i := range u.heads {
		out.Objects[i].Head = u.heads[i]
		if json != nil {
			out.Objects[i].Fields = json[i]
		}
	}
	return out
}
