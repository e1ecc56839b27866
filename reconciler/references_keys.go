package reconciler

import (
	"cmp"
	"iter"
	"strings"

	"github.com/writ-os/writ/reconciler/reference"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// holdKeys holds the references to the ConfigMaps and Secrets of a unit, which has
// just come or gone, against the keys that these have now.
func (e *evaluated) holdKeys(u *unit) {
	for i, keys := range u.keys {
		if keys == "" {
			continue
		}
		for _, w := range e.refs.to(u.heads[i].Ref) {
			e.holdKey(w)
		}
	}
}

func (e *evaluated) holdKey(w want) {
	if len(w.need().Keys) == 0 {
		return
	}
	if len(w.need().Lacks(e.keysOf(w.to))) > 0 {
		e.refs.lacking.Put(w)
	} else {
		e.refs.lacking.Delete(w)
	}
}

// keysOf are the keys that the tree declares of a ConfigMap or a Secret.
func (e *evaluated) keysOf(ref render.Ref) string {
	for d := range e.declared.From(declaration{&render.Head{Ref: ref}, at(""), 0}) {
		if compareRefs(d.Ref, ref) == 0 && d.unit.keys != nil {
			return d.unit.keys[d.at]
		}
		break
	}
	return ""
}

// lacks yields the keys that objects read of ConfigMaps and Secrets of the commit
// which have others only.
func (ev *evaluation) lacks(c *cluster, entries func(namespace string) []reference.Entry) iter.Seq2[want, v1alpha1.Finding] {
	return func(yield func(want, v1alpha1.Finding) bool) {
		for w := range ev.refs.lacking.All() {
			if d, ok := ev.first(w.to); ev.left[w.unit.Path] || ok && ev.left[d.Path] || w.need().May(entries(w.to.Key.Namespace)) {
				continue
			}
			keys := ev.keysOf(w.to)
			for _, k := range w.need().Lacks(keys) {
				if c.hasKey(w.to, k.Name) {
					continue
				}
				f := w.need().LacksKey(w.head(), k)
				f.Hint = cmp.Or(meant(k.Name, strings.Split(keys, ",")), "it has "+strings.ReplaceAll(keys, ",", ", "))
				if !yield(w, f) {
					return
				}
			}
		}
	}
}
