package garbagecollector

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/schema"
)

// circular says whether an object that its owner waits for has itself a
// dependent that waits for its own dependents: they may wait for each other for
// ever. As upstream, it is said of chains too, where it does no harm.
func (c *Controller) circular(o schema.Object) bool {
	if !blocks(o) {
		return false
	}
	for _, dep := range c.graph.dependents(o.GetUID()) {
		d, ok := c.cfg.Cache.Get(dep.resource, dep.key)
		if ok && d.GetDeletionTimestamp() != nil && slices.Contains(d.GetFinalizers(), metav1.FinalizerDeleteDependents) {
			return true
		}
	}
	return false
}

// blocks says whether an object holds up the deletion of an owner.
func blocks(o schema.Object) bool {
	return slices.ContainsFunc(o.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ptrTrue(ref.BlockOwnerDeletion) })
}

// unblock lets the owners of an object go without it. The event of the write
// brings the object back, to be deleted then.
func (c *Controller) unblock(ctx context.Context, id identity, o schema.Object) error {
	refs := slices.Clone(o.GetOwnerReferences())
	no := false
	for i := range refs {
		if refs[i].BlockOwnerDeletion != nil {
			refs[i].BlockOwnerDeletion = &no
		}
	}
	return c.patch(ctx, id, "unblock the owners of", map[string]any{"resourceVersion": o.GetResourceVersion(), "uid": o.GetUID(), "ownerReferences": refs})
}
