package registry

import (
	"context"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/warning"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind/valid"
)

// Delete implements client.Writer.
func (g *Registry) Delete(ctx context.Context, r *schema.Resource, key schema.Key, d client.DeleteOptions) error {
	_, _, err := g.DeleteObject(ctx, r, key, d)
	return err
}

// DeleteObject is Delete that returns the last state and whether the object is
// gone; it is not when it ends gracefully or a finalizer holds it.
func (g *Registry) DeleteObject(ctx context.Context, r *schema.Resource, key schema.Key, d client.DeleteOptions) (o schema.Object, gone bool, err error) {
	warnOrphans(ctx, r, d)
	var e *entry
	o, err = g.one(ctx, r, d.DryRun, func(ov *overlay) (*entry, error) {
		var err error
		e, err = g.delete(ctx, ov, r, key, d)
		return e, err
	})
	if err != nil {
		return nil, false, err
	}
	return o, e.object == nil, nil
}

// DeleteAll deletes objects of one resource, each on its own: one that is gone
// meanwhile is no error.
func (g *Registry) DeleteAll(ctx context.Context, r *schema.Resource, items []*store.Item, d client.DeleteOptions) error {
	warnOrphans(ctx, r, d)
	if err := g.writable(r); err != nil {
		return err
	}
	for _, it := range items {
		if _, _, err := g.DeleteObject(ctx, r, it.Key, d); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// delete admits the deletion of an object over an overlay.
func (g *Registry) delete(ctx context.Context, ov *overlay, r *schema.Resource, key schema.Key, d client.DeleteOptions) (*entry, error) {
	old, err := current(ctx, ov, r, key)
	if err != nil {
		return nil, err
	}
	if old == nil {
		return nil, notFound(r, key.Name)
	}
	w := g.newWrite(ctx, ov, "delete", r, "", key, client.WriteOptions{DryRun: d.DryRun})
	w.deletion = &d
	if err := deletePreconditions(w.rule, r, old, d.Preconditions); err != nil {
		return nil, err
	}
	again := old.GetDeletionTimestamp() != nil
	if again && w.rule.Held != nil && w.rule.Held(old) { // a namespace that is being emptied
		return ov.entry(r, key), nil
	}
	a := w.attributes(nil, old)
	if err := g.mutate(ctx, a); err != nil {
		return nil, err
	}
	if err := g.validate(ctx, a); err != nil {
		return nil, err
	}

	o := old.DeepCopyObject().(schema.Object)
	changed := (again || !w.rule.Marked) && propagate(o, w.propagation(o, d.Propagation))
	seconds, pending, graceful := int64(0), false, false
	if w.rule.Grace != nil {
		seconds, graceful = w.rule.Grace(old, d.GracePeriodSeconds)
		pending = graceful && seconds > 0
	}
	if !pending && !w.holds(o) {
		if graceful { // it ends at once, and its last state says so
			w.begins(o, seconds)
			e, err := w.finish(ctx, o)
			if err == nil {
				e.own = true
			}
			return e, err
		}
		return w.finish(ctx, old)
	}
	if w.begins(o, seconds) {
		changed = true
		if w.rule.PrepareDelete != nil && !again {
			w.rule.PrepareDelete(o)
		}
	}
	if !changed {
		return ov.entry(r, key), nil
	}
	return w.put(ctx, o)
}

// finish removes an object for good.
func (w *write) finish(ctx context.Context, last schema.Object) (*entry, error) {
	if w.rule.allocate != nil {
		w.rule.allocate(w, nil, last)
	}
	last, err := intoStored(ctx, w.r, last)
	if err != nil {
		return nil, err
	}
	return w.o.remove(w.r, w.key, last), nil
}

// holds says whether something keeps an object that is to be deleted.
func (w *write) holds(o schema.Object) bool {
	return len(o.GetFinalizers()) > 0 || w.rule.Held != nil && w.rule.Held(o)
}

// ended says whether an update has taken away the last that held an object
// whose deletion had begun.
func (w *write) ended(o schema.Object) bool {
	if o.GetDeletionTimestamp() == nil || w.holds(o) {
		return false
	}
	s := o.GetDeletionGracePeriodSeconds()
	return s == nil || *s == 0
}

// deletePreconditions has two texts, as upstream: kinds that something besides
// their finalizers holds have a way of their own to be deleted.
func deletePreconditions(rl *rule, r *schema.Resource, o metav1.Object, p *metav1.Preconditions) error {
	switch {
	case p == nil:
		return nil
	case rl.Held != nil && p.UID != nil && *p.UID != o.GetUID():
		return apierrors.NewConflict(r.GroupResource(), o.GetName(), fmt.Errorf( //nolint:staticcheck // upstream's words
			"Precondition failed: UID in precondition: %v, UID in object meta: %v", *p.UID, o.GetUID()))
	case rl.Held != nil && p.ResourceVersion != nil && *p.ResourceVersion != o.GetResourceVersion():
		return apierrors.NewConflict(r.GroupResource(), o.GetName(), fmt.Errorf( //nolint:staticcheck // upstream's words
			"Precondition failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v", *p.ResourceVersion, o.GetResourceVersion()))
	}
	kind := kschema.GroupResource{Group: r.Group, Resource: r.Kind} // as upstream says it here
	if p.UID != nil && *p.UID != o.GetUID() {
		return apierrors.NewConflict(kind, o.GetName(), fmt.Errorf(
			"the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *p.UID, o.GetUID()))
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != o.GetResourceVersion() {
		return apierrors.NewConflict(kind, o.GetName(), fmt.Errorf(
			"the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *p.ResourceVersion, o.GetResourceVersion()))
	}
	return nil
}

// propagate sets the finalizers by which the garbage collector knows what to do
// with the dependents, and says whether they changed.
func propagate(o metav1.Object, p metav1.DeletionPropagation) bool {
	want := func(name string, is bool) bool {
		f := o.GetFinalizers()
		has := slices.Contains(f, name)
		switch {
		case is && !has:
			o.SetFinalizers(append(slices.Clone(f), name))
		case !is && has:
			o.SetFinalizers(slices.DeleteFunc(slices.Clone(f), func(s string) bool { return s == name }))
		}
		return is != has
	}
	switch p {
	case metav1.DeletePropagationOrphan:
		a := want(metav1.FinalizerDeleteDependents, false)
		return want(metav1.FinalizerOrphanDependents, true) || a
	case metav1.DeletePropagationForeground:
		a := want(metav1.FinalizerOrphanDependents, false)
		return want(metav1.FinalizerDeleteDependents, true) || a
	case metav1.DeletePropagationBackground:
		a := want(metav1.FinalizerOrphanDependents, false)
		return want(metav1.FinalizerDeleteDependents, false) || a
	}
	return false
}

// propagation is what becomes of the dependents when the request does not say it:
// clients of some kinds count on that they stay. Parts of this process say it
// where they mean it.
func (w *write) propagation(o metav1.Object, p metav1.DeletionPropagation) metav1.DeletionPropagation {
	f := o.GetFinalizers()
	if p != "" || !w.rule.Orphans || trusted(w.user) || slices.Contains(f, metav1.FinalizerDeleteDependents) {
		return p
	}
	return metav1.DeletePropagationOrphan
}

// begins is begin for the kind of the write. A kind that is held by more than
// finalizers has no grace period at first. The second request sets one of 0,
// and counts as a change of the spec: so does upstream.
func (w *write) begins(o metav1.Object, seconds int64) bool {
	switch begun := o.GetDeletionTimestamp() != nil; {
	case begun && w.rule.Held != nil && o.GetDeletionGracePeriodSeconds() == nil:
		none := int64(0)
		o.SetDeletionGracePeriodSeconds(&none)
		if n := o.GetGeneration(); n > 0 {
			o.SetGeneration(n + 1)
		}
		return true
	case begun || !w.rule.Marked:
		return begin(o, seconds)
	}
	at := valid.Now()
	o.SetDeletionTimestamp(&at)
	return true
}

// begin marks an object as being deleted with a grace period, or shortens the
// one it has. It says whether anything changed.
func begin(o metav1.Object, seconds int64) bool {
	at := valid.Now()
	if old := o.GetDeletionTimestamp(); old != nil {
		had := o.GetDeletionGracePeriodSeconds()
		if had == nil || *had <= seconds {
			return false // a grace period may only become shorter
		}
		end := metav1.NewTime(old.Add(time.Duration(seconds-*had) * time.Second))
		if end.Before(&at) {
			end = at
			if seconds != 0 {
				seconds = 1 // still gracefully: whoever ends it deletes it
			}
		}
		o.SetDeletionTimestamp(&end)
		o.SetDeletionGracePeriodSeconds(&seconds)
		return true
	}
	at = metav1.NewTime(at.Add(time.Duration(seconds) * time.Second))
	o.SetDeletionTimestamp(&at)
	o.SetDeletionGracePeriodSeconds(&seconds)
	if n := o.GetGeneration(); n > 0 {
		o.SetGeneration(n + 1)
	}
	return true
}

// orphaned is what upstream says of a deletion that leaves a job's pods behind
// without having been told to.
const orphaned = "child pods are preserved by default when jobs are deleted; " +
	"set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning"

// warnOrphans says it, whether or not there is such a job.
func warnOrphans(ctx context.Context, r *schema.Resource, d client.DeleteOptions) {
	if d.Propagation == "" && r == schema.ResourceFor[*batchv1.Job]() {
		warning.AddWarning(ctx, "", orphaned)
	}
}
