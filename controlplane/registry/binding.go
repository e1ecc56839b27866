package registry

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind/core"
	"github.com/writ-os/writ/schema/kind/valid"
)

// bind is POST pods/binding.
func (g *Registry) bind(ctx context.Context, r *schema.Resource, key schema.Key, o schema.Object, w client.WriteOptions) (schema.Object, error) {
	return g.one(ctx, r, w.DryRun, func(ov *overlay) (*entry, error) {
		return g.bindOver(ctx, ov, r, key, o, w)
	})
}

// bindOver gives a pod its node, once.
func (g *Registry) bindOver(ctx context.Context, ov *overlay, r *schema.Resource, key schema.Key, o schema.Object, opt client.WriteOptions) (*entry, error) {
	b, ok := o.(*corev1.Binding)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a Binding object: %T", o))
	}
	if key.Name == "" {
		key = schema.KeyOf(b)
	}
	if err := checkBinding(b); err != nil {
		return nil, err
	}
	old, ok := ov.get(r, key).(*corev1.Pod)
	if !ok {
		return nil, notFound(r, key.Name)
	}
	if err := bindable(r, old, b); err != nil {
		return nil, err
	}
	w := g.newWrite(ctx, ov, "create", r, "binding", key, opt)
	a := w.attributes(b, nil)
	if err := g.mutate(ctx, a); err != nil {
		return nil, err
	}
	if err := g.validate(ctx, a); err != nil {
		return nil, err
	}
	pod := old.DeepCopy()
	pod.Spec.NodeName = b.Target.Name
	for k, v := range b.Annotations {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, k, v)
	}
	// The topology of the node, which admission has put there (KEP-4742).
	for k, v := range b.Labels {
		metav1.SetMetaDataLabel(&pod.ObjectMeta, k, v)
	}
	core.SetPodCondition(pod, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})
	return ov.put(r, key, pod), nil
}

func checkBinding(b *corev1.Binding) error {
	var errs field.ErrorList
	if b.Target.Kind != "" && b.Target.Kind != "Node" {
		errs = append(errs, field.NotSupported(field.NewPath("target", "kind"), b.Target.Kind, []string{"Node", "<empty>"}))
	}
	if b.Target.Name == "" {
		errs = append(errs, field.Required(field.NewPath("target", "name"), ""))
	}
	if len(errs) == 0 {
		return nil
	}
	return errs.ToAggregate() // upstream: no answer of the API, an internal error
}

func bindable(r *schema.Resource, pod *corev1.Pod, b *corev1.Binding) error {
	refuse := func(format string, args ...any) error {
		return apierrors.NewConflict(podBinding(r), pod.Name, fmt.Errorf(format, args...))
	}
	switch {
	case b.UID != "" && b.UID != pod.UID:
		return refuse("Precondition failed: UID in precondition: %v, UID in object meta: %v", b.UID, pod.UID)
	case b.ResourceVersion != "" && b.ResourceVersion != pod.ResourceVersion:
		return apierrors.NewConflict(podBinding(r), pod.Name, errors.New(optimisticLock))
	case pod.DeletionTimestamp != nil:
		return refuse("pod %s is being deleted, cannot be assigned to a host", pod.Name)
	case pod.Spec.NodeName != "":
		return refuse("pod %v is already assigned to node %q", pod.Name, pod.Spec.NodeName)
	case len(pod.Spec.SchedulingGates) > 0:
		return refuse("pod %v has non-empty .spec.schedulingGates", pod.Name)
	}
	return nil
}

// evict is POST pods/eviction: a deletion that budgets may refuse.
func (g *Registry) evict(ctx context.Context, r *schema.Resource, key schema.Key, o schema.Object, w client.WriteOptions) (schema.Object, error) {
	ev, ok := o.(*policyv1.Eviction)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a Eviction object: %T", o))
	}
	if key.Name == "" {
		key = schema.KeyOf(ev)
	}
	d := client.DeleteOptions{DryRun: w.DryRun}
	if opt := ev.DeleteOptions; opt != nil {
		d.GracePeriodSeconds, d.Preconditions = opt.GracePeriodSeconds, opt.Preconditions
		if opt.PropagationPolicy != nil {
			d.Propagation = *opt.PropagationPolicy
		}
		d.DryRun = d.DryRun || len(opt.DryRun) > 0
	}
	return g.one(ctx, r, d.DryRun, func(ov *overlay) (*entry, error) {
		pod, ok := ov.get(r, key).(*corev1.Pod)
		if !ok {
			return nil, notFound(r, key.Name)
		}
		// What does not run, or ends already, disrupts nobody.
		if !core.PodEnded(pod) && pod.Status.Phase != corev1.PodPending && pod.DeletionTimestamp == nil {
			if err := g.disrupt(ctx, ov, pod); err != nil {
				return nil, err
			}
		}
		return g.delete(ctx, ov, r, key, d)
	})
}

// disrupt takes one disruption from the budget of a pod.
func (g *Registry) disrupt(ctx context.Context, ov *overlay, pod *corev1.Pod) error {
	budgets := schema.ResourceFor[*policyv1.PodDisruptionBudget]()
	var found *policyv1.PodDisruptionBudget
	for _, o := range ov.List(budgets, pod.Namespace) {
		b := o.(*policyv1.PodDisruptionBudget)
		sel, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil || !sel.Matches(labels.Set(pod.Labels)) {
			continue
		}
		if found != nil {
			return apierrors.NewInternalError(errors.New("this pod has more than one PodDisruptionBudget, which the eviction subresource does not support"))
		}
		found = b
	}
	switch {
	case found == nil || spares(found, pod):
		return nil
	case found.Status.ObservedGeneration < found.Generation:
		return tooManyRequests(10, "The disruption budget %s is still being processed by the server.", found.Name)
	case found.Status.DisruptionsAllowed < 0:
		return apierrors.NewForbidden(budgets.GroupResource(), found.Name, errors.New("pdb disruptions allowed is negative"))
	case len(found.Status.DisruptedPods) > maxDisrupted:
		return apierrors.NewForbidden(budgets.GroupResource(), found.Name, errors.New("DisruptedPods map too big - too many evictions not confirmed by PDB controller"))
	case found.Status.DisruptionsAllowed == 0:
		return tooManyRequests(0, "The disruption budget %s needs %d healthy pods and has %d currently",
			found.Name, found.Status.DesiredHealthy, found.Status.CurrentHealthy)
	}
	b := found.DeepCopy()
	b.Status.DisruptionsAllowed--
	if b.Status.DisruptedPods == nil {
		b.Status.DisruptedPods = map[string]metav1.Time{}
	}
	b.Status.DisruptedPods[pod.Name] = valid.Now()
	ov.Put(ctx, budgets, b)
	return nil
}

// maxDisrupted is how many evictions may wait for the budget's controller to see
// them.
const maxDisrupted = 2000

// spares says that a pod may go without asking its budget: it is not ready, so
// nobody is disrupted, and the budget allows that (KEP-3017).
func spares(b *policyv1.PodDisruptionBudget, pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return false
		}
	}
	if p := b.Spec.UnhealthyPodEvictionPolicy; p != nil && *p == policyv1.AlwaysAllow {
		return true
	}
	return b.Status.DesiredHealthy > 0 && b.Status.CurrentHealthy >= b.Status.DesiredHealthy
}

// tooManyRequests refuses an eviction. In so many seconds it is worth another
// try; 0 when nobody knows.
func tooManyRequests(seconds int, format string, args ...any) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", seconds)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: policyv1.DisruptionBudgetCause, Message: fmt.Sprintf(format, args...),
	})
	return err
}

func podBinding(r *schema.Resource) kschema.GroupResource {
	return kschema.GroupResource{Group: r.Group, Resource: r.Plural + "/binding"}
}
