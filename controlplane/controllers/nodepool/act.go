package nodepool

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// step does one step with a node.
func (c *Controller) step(ctx context.Context, n *corev1.Node, s step) error {
	switch s.action {
	case wait, fail:
		return nil
	case evict:
		return c.evict(ctx, s.pods)
	case reboot:
		// Asked of the server itself: a pod that came while the cache looked away
		// would be killed.
		pods, err := client.ListAll[*corev1.Pod](ctx, c.cfg.Client, client.ListOptions{Fields: fields.OneTermEqualSelector("spec.nodeName", n.Name)})
		if err != nil {
			return fmt.Errorf("list its pods: %w", err)
		}
		for _, p := range pods {
			if !stays(p) {
				return fmt.Errorf("pod %s has come", schema.KeyOf(p))
			}
		}
	}
	next, err := client.Update(ctx, c.cfg.Client, s.apply(n), client.WriteOptions{})
	if err != nil {
		return err
	}
	if next.ResourceVersion != n.ResourceVersion {
		c.replaced[n.Name] = n.ResourceVersion
	}
	if s.action == cordon || s.action == reboot || s.action == uncordon {
		c.cfg.Recorder.Eventf(n, corev1.EventTypeNormal, string(s.action), "%s by its NodePool: %s", told[s.action], s.why)
	}
	return nil
}

// told is what events call an action.
var told = map[action]string{cordon: "Cordoned and drained", reboot: "Rebooted", uncordon: "Let back"}

// apply is the node as the step makes it. It holds on to the version that the
// plan has seen.
func (s step) apply(n *corev1.Node) *corev1.Node {
	next := n.DeepCopy()
	set := func(key, value string) {
		if value == "" {
			delete(next.Annotations, key)
		} else {
			metav1.SetMetaDataAnnotation(&next.ObjectMeta, key, value)
		}
	}
	switch s.action {
	case stage:
		set(v1alpha1.DesiredImageAnnotation, s.image)
		set(v1alpha1.DesiredKernelArgumentsAnnotation, s.arguments)
		return next
	case forget:
		set(v1alpha1.DesiredImageAnnotation, "")
		set(v1alpha1.DesiredKernelArgumentsAnnotation, "")
		set(v1alpha1.RebootAnnotation, "")
		return next
	case cordon:
		if !n.Spec.Unschedulable { // otherwise it is a person's, and stays
			next.Spec.Unschedulable = true
			set(v1alpha1.CordonedByAnnotation, v1alpha1.CordonedByNodePool)
		}
	case reboot:
		set(v1alpha1.RebootAnnotation, s.image)
	case uncordon:
		if n.Annotations[v1alpha1.CordonedByAnnotation] == v1alpha1.CordonedByNodePool {
			next.Spec.Unschedulable = false
		}
		set(v1alpha1.CordonedByAnnotation, "")
		set(v1alpha1.RebootAnnotation, "")
		if s.next != "" { // it has arrived; one that is released may keep what it has staged
			set(v1alpha1.DesiredImageAnnotation, "")
			set(v1alpha1.DesiredKernelArgumentsAnnotation, "")
		}
	}
	set(v1alpha1.UpdateStepAnnotation, s.next)
	return next
}

// evict asks pods to leave. One that its budget holds back is asked again
// later; the plan says which budget that is.
func (c *Controller) evict(ctx context.Context, pods []*corev1.Pod) error {
	for _, p := range pods {
		uid, key := p.UID, schema.KeyOf(p)
		e := &policyv1.Eviction{
			TypeMeta:      metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"},
			ObjectMeta:    metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}},
		}
		_, err := c.cfg.Client.Create(ctx, schema.ResourceFor[*corev1.Pod](), e, client.WriteOptions{Subresource: "eviction", Key: key})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !apierrors.IsTooManyRequests(err) {
			return fmt.Errorf("evict pod %s: %w", key, err)
		}
	}
	return nil
}
