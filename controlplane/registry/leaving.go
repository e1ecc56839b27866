package registry

import (
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// Leaving is an object that a later op of the same transaction deletes.
type Leaving struct {
	Resource *schema.Resource
	Object   schema.Object
}

// Leaving are the objects of a namespace that the transaction deletes for good,
// wherever in it: what is counted for a transaction as a whole is counted
// without them.
func (o *overlay) Leaving(namespace string) []Leaving { return o.leaving[namespace] }

// leaving finds what ops delete at once, by namespace. What a finalizer holds or
// what ends gracefully is still there when the transaction is stored.
func (g *Registry) leaving(o *overlay, ops []client.Op) map[string][]Leaving {
	var out map[string][]Leaving
	for i := range ops {
		op := &ops[i]
		if op.Verb != client.VerbDelete || !op.Resource.Namespaced {
			continue
		}
		it := o.base.Get(op.Resource.Stored(), op.Key)
		if it == nil || len(it.Object.GetFinalizers()) > 0 || it.Object.GetDeletionTimestamp() != nil {
			continue
		}
		if grace := g.rule(op.Resource).Grace; grace != nil {
			if seconds, graceful := grace(it.Object, nil); graceful && seconds > 0 {
				continue
			}
		}
		if out == nil {
			out = map[string][]Leaving{}
		}
		out[op.Key.Namespace] = append(out[op.Key.Namespace], Leaving{op.Resource.Stored(), it.Object})
	}
	return out
}
