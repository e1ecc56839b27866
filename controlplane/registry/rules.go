package registry

import (
	"context"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind"
	"github.com/writ-os/writ/schema/kind/kinds"
)

// rule is how one kind is written: what is so by itself (kind.Kind), and the
// steps that need the cluster, or know who writes. Every step may be nil.
type rule struct {
	*kind.Kind

	// begin comes first of all: it completes what was sent from what there was
	// and claims what the cluster has once, addresses and ports (upstream: the
	// BeginCreate and BeginUpdate of a registry). old is nil for a new object.
	begin func(ctx context.Context, w *write, o, old schema.Object) error
	// allocate is the last of the rules: old is nil for a new object, o is nil
	// for one that goes and gives back what begin has claimed for it.
	allocate func(w *write, o, old schema.Object) field.ErrorList
}

// plainRule is the rule of kinds that have nothing of their own.
var plainRule = &rule{Kind: &kind.Kind{}}

// allRules are the rules of all kinds that have some.
func (g *Registry) allRules() map[*schema.Resource]*rule {
	rules := g.steps()
	for k := range kinds.All() {
		u := rules[k.Resource]
		if u == nil {
			u = &rule{}
			rules[k.Resource] = u
		}
		u.Kind = k
	}
	return rules
}

// prepareCreate brings a new object into the state in which its life begins.
func (u *rule) prepareCreate(r *schema.Resource, o schema.Object) {
	if c, ok := o.(*unstructured.Unstructured); ok {
		prepareCustom(r, c)
		return
	}
	u.Begin(r, o)
}

// prepareUpdate lets a change through the door it came by.
func (u *rule) prepareUpdate(r *schema.Resource, sub string, o, old schema.Object) {
	if c, ok := o.(*unstructured.Unstructured); ok {
		prepareCustomUpdate(r, sub, c, old.(*unstructured.Unstructured))
		return
	}
	switch sub {
	case "status":
		kind.TakePart(o, old, "Spec")
		keepStatusMeta(r, o, old)
		if u.PrepareStatus != nil {
			u.PrepareStatus(o, old)
		}
		return
	case "":
		if r.Status && !u.KeepsStatus {
			kind.TakePart(o, old, "Status")
		}
		if u.PrepareUpdate != nil {
			u.PrepareUpdate(o, old)
		}
	default:
		if sub != "approval" { // the one that is there to write the status
			kind.TakePart(o, old, "Status")
		}
		if u.PrepareDoor != nil {
			u.PrepareDoor(sub, o, old)
		}
	}
	if u.Generation && u.specChanged(o, old) {
		o.SetGeneration(old.GetGeneration() + 1)
	}
}

// specChanged says whether an update is one that controllers must observe.
func (u *rule) specChanged(o, old schema.Object) bool {
	return !kind.SamePart(o, old, "Spec") ||
		u.Annotations && !maps.Equal(o.GetAnnotations(), old.GetAnnotations())
}

// keepMeta restores what an update may not touch in the metadata.
func keepMeta(o, old metav1.Object) {
	o.SetGeneration(old.GetGeneration())
	o.SetSelfLink("")
	if o.GetUID() == "" {
		o.SetUID(old.GetUID())
	}
	if at := old.GetCreationTimestamp(); !at.IsZero() {
		o.SetCreationTimestamp(at)
	}
	if at := old.GetDeletionTimestamp(); at != nil {
		o.SetDeletionTimestamp(at)
	}
	if s := old.GetDeletionGracePeriodSeconds(); s != nil && o.GetDeletionGracePeriodSeconds() == nil {
		o.SetDeletionGracePeriodSeconds(s)
	}
}
