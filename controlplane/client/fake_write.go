package client

import (
	"context"
	"errors"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Create implements Writer.
func (f *Fake) Create(_ context.Context, r *schema.Resource, o schema.Object, w WriteOptions) (schema.Object, error) {
	if err := f.reject(VerbCreate, r, w.Subresource, o); err != nil {
		return nil, err
	}
	return f.do(w.DryRun, func() (schema.Object, error) {
		switch w.Subresource {
		case "":
			return f.create(r, o)
		case "binding":
			return f.bind(r, w.Key, o)
		case "eviction":
			return o, f.delete(r, w.Key, DeleteOptions{})
		}
		return nil, apierrors.NewNotFound(r.GroupResource(), w.Key.Name+"/"+w.Subresource)
	})
}

var errVersionOnCreate = errors.New("resourceVersion should not be set on objects to be created")

func (f *Fake) create(r *schema.Resource, o schema.Object) (schema.Object, error) {
	next := deepCopy(o)
	if next.GetName() == "" {
		if next.GetGenerateName() == "" {
			return nil, apierrors.NewBadRequest("name or generateName is required")
		}
		next.SetName(next.GetGenerateName() + rand.String(5))
	}
	if _, ok := f.objects[r][schema.KeyOf(next)]; ok {
		return nil, apierrors.NewAlreadyExists(r.GroupResource(), next.GetName())
	}
	if next.GetResourceVersion() != "" {
		return nil, errVersionOnCreate // upstream answers 500
	}
	next.SetUID("")
	next.SetCreationTimestamp(metav1.Time{})
	next.SetDeletionTimestamp(nil)
	if r.Status {
		resetStatus(next)
	}
	stampNew(r, next)
	f.set(r, nil, next)
	return next, nil
}

// stampNew gives a new object its identity, and the state that the kind
// begins with.
func stampNew(r *schema.Resource, o schema.Object) {
	if o.GetUID() == "" {
		o.SetUID(uuid.NewUUID())
	}
	if c := o.GetCreationTimestamp(); c.IsZero() {
		o.SetCreationTimestamp(metav1.Time{Time: now()})
	}
	if r.Status && o.GetGeneration() == 0 {
		o.SetGeneration(1)
	}
	switch t := o.(type) {
	case *corev1.Namespace:
		if t.Spec.Finalizers == nil && t.DeletionTimestamp == nil {
			t.Spec.Finalizers = []corev1.FinalizerName{corev1.FinalizerKubernetes}
		}
		if t.Status.Phase == "" {
			t.Status.Phase = corev1.NamespaceActive
		}
	case *corev1.Pod:
		if t.Status.Phase == "" {
			t.Status.Phase = corev1.PodPending
		}
	}
}

// Update implements Writer.
func (f *Fake) Update(_ context.Context, r *schema.Resource, o schema.Object, w WriteOptions) (schema.Object, error) {
	if err := f.reject(VerbUpdate, r, w.Subresource, o); err != nil {
		return nil, err
	}
	return f.do(w.DryRun, func() (schema.Object, error) { return f.written(r, o, w.Subresource, w.FieldManager) })
}

// written is an update by an object. Who owns which field cannot be said
// through a subresource.
func (f *Fake) written(r *schema.Resource, o schema.Object, sub, manager string) (schema.Object, error) {
	if old, ok := f.objects[r][schema.KeyOf(o)]; ok && sub != "" {
		o = deepCopy(o)
		o.SetManagedFields(old.GetManagedFields())
	} else if ok {
		var err error
		if o, err = owned(r, old, o, sub, manager); err != nil {
			return nil, err
		}
	}
	return f.update(r, o, sub)
}

func (f *Fake) update(r *schema.Resource, o schema.Object, sub string) (schema.Object, error) {
	old, ok := f.objects[r][schema.KeyOf(o)]
	if !ok {
		return nil, apierrors.NewNotFound(r.GroupResource(), o.GetName())
	}
	if rv := o.GetResourceVersion(); rv != "" && rv != old.GetResourceVersion() {
		return nil, conflict(r, o, "the object has been modified; please apply your changes to the latest version and try again")
	}
	if uid := o.GetUID(); uid != "" && uid != old.GetUID() {
		return nil, conflict(r, o, fmt.Sprintf("Precondition failed: UID in precondition: %v, UID in object meta: %v", uid, old.GetUID()))
	}
	next, err := merged(r, old, o, sub)
	if err != nil {
		return nil, err
	}
	if equality.Semantic.DeepEqual(old, next) {
		return old, nil
	}
	if sub != "status" && sub != "approval" && r.Status && !equality.Semantic.DeepEqual(counted(old), counted(next)) {
		next.SetGeneration(old.GetGeneration() + 1)
	}
	if next.GetDeletionTimestamp() != nil && nothingHolds(next) {
		return f.remove(r, old, next), nil
	}
	f.set(r, old, next)
	return next, nil
}

// merged returns what an update of old by o through a subresource results in.
func merged(r *schema.Resource, old, o schema.Object, sub string) (schema.Object, error) {
	switch sub {
	case "":
		next := deepCopy(o)
		keepIdentity(next, old)
		if r.Status {
			copyField(next, old, "Status")
		}
		return next, nil
	case "status", "approval":
		next := deepCopy(o)
		keepIdentity(next, old)
		copyField(next, deepCopy(old), "Spec")
		if r.Group == v1alpha1.GroupVersion.Group { // the status of our own kinds is but their status
			next.SetAnnotations(old.GetAnnotations())
			next.SetLabels(old.GetLabels())
		}
		return next, nil
	case "finalize":
		next := deepCopy(old).(*corev1.Namespace)
		next.Spec.Finalizers = o.(*corev1.Namespace).Spec.Finalizers
		return next, nil
	case "scale":
		next := deepCopy(old)
		setReplicas(next, o.(*autoscalingv1.Scale).Spec.Replicas)
		return next, nil
	}
	return nil, apierrors.NewNotFound(r.GroupResource(), o.GetName()+"/"+sub)
}

// Delete implements Writer.
func (f *Fake) Delete(_ context.Context, r *schema.Resource, key schema.Key, d DeleteOptions) error {
	f.mu.Lock()
	o := f.objects[r][key]
	f.mu.Unlock()
	if err := f.reject(VerbDelete, r, "", o); err != nil {
		return err
	}
	_, err := f.do(d.DryRun, func() (schema.Object, error) { return nil, f.delete(r, key, d) })
	return err
}

func (f *Fake) delete(r *schema.Resource, key schema.Key, d DeleteOptions) error {
	old, ok := f.objects[r][key]
	if !ok {
		return apierrors.NewNotFound(r.GroupResource(), key.Name)
	}
	if p := d.Preconditions; p != nil {
		if p.UID != nil && *p.UID != old.GetUID() {
			return conflict(r, old, fmt.Sprintf("Precondition failed: UID in precondition: %v, UID in object meta: %v", *p.UID, old.GetUID()))
		}
		if p.ResourceVersion != nil && *p.ResourceVersion != old.GetResourceVersion() {
			return conflict(r, old, fmt.Sprintf("Precondition failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v", *p.ResourceVersion, old.GetResourceVersion()))
		}
	}
	next := deepCopy(old)
	setPropagation(next, d.Propagation)
	markDeleted(next, d)
	if nothingHolds(next) {
		f.remove(r, old, next)
		return nil
	}
	if equality.Semantic.DeepEqual(old, next) {
		return nil
	}
	f.set(r, old, next)
	return nil
}

// markDeleted sets the deletion time and, for pods, the grace period.
func markDeleted(o schema.Object, d DeleteOptions) {
	grace := int64(0)
	if p, ok := o.(*corev1.Pod); ok {
		grace = podGrace(p, d.GracePeriodSeconds)
		if had := p.DeletionGracePeriodSeconds; had != nil && *had < grace {
			grace = *had
		}
	}
	if o.GetDeletionTimestamp() == nil || grace < *o.GetDeletionGracePeriodSeconds() {
		t := metav1.Time{Time: now()}
		t.Time = t.Add(secondsOf(grace))
		o.SetDeletionTimestamp(&t)
		o.SetDeletionGracePeriodSeconds(&grace)
	}
	if ns, ok := o.(*corev1.Namespace); ok {
		ns.Status.Phase = corev1.NamespaceTerminating
	}
}

// podGrace is how long a pod gets to end: none if no node runs it.
func podGrace(p *corev1.Pod, asked *int64) int64 {
	done := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	switch {
	case p.Spec.NodeName == "" || done:
		return 0
	case asked != nil:
		return *asked
	case p.Spec.TerminationGracePeriodSeconds != nil:
		return *p.Spec.TerminationGracePeriodSeconds
	}
	return 30
}

// bind assigns a pod to a node.
func (f *Fake) bind(r *schema.Resource, key schema.Key, o schema.Object) (schema.Object, error) {
	old, ok := f.objects[r][key].(*corev1.Pod)
	if !ok {
		return nil, apierrors.NewNotFound(r.GroupResource(), key.Name)
	}
	b := o.(*corev1.Binding)
	if b.UID != "" && b.UID != old.UID {
		return nil, conflict(r, old, fmt.Sprintf("Precondition failed: UID in precondition: %v, UID in object meta: %v", b.UID, old.UID))
	}
	if old.Spec.NodeName != "" {
		return nil, conflict(r, old, fmt.Sprintf("pod %v is already assigned to node %q", old.Name, old.Spec.NodeName))
	}
	if old.DeletionTimestamp != nil {
		return nil, conflict(r, old, fmt.Sprintf("pod %s is being deleted, cannot be assigned to a host", old.Name))
	}
	next := old.DeepCopy()
	next.Spec.NodeName = b.Target.Name
	next.Status.Conditions = append(next.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: now()},
	})
	f.set(r, old, next)
	return next, nil
}

func conflict(r *schema.Resource, o schema.Object, why string) error {
	return apierrors.NewConflict(r.GroupResource(), o.GetName(), errors.New(why))
}
