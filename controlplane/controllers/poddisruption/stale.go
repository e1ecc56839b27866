package poddisruption

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/controlplane/controller/podset"
	"github.com/writ-os/writ/schema"
)

// Who evicts a pod marks it with the condition DisruptionTarget first. Where the
// deletion does not come, the mark would have the Job of the pod, and people,
// believe for ever that its end was a disruption. As upstream, it is taken back
// after a while.

// staleAfter is upstream's stalePodDisruptionTimeout.
const staleAfter = 2 * time.Minute

// mark tells the key of a marked pod from that of a budget: no name has a "/".
const mark = "pod/"

// markedOf returns the pod that the key of a marked pod names.
func markedOf(k schema.Key) (pod schema.Key, ok bool) {
	name, ok := strings.CutPrefix(k.Name, mark)
	return schema.Key{Namespace: k.Namespace, Name: name}, ok
}

// wakeMarked wakes a pod that is marked.
func (c *Controller) wakeMarked(ev client.Event) []schema.Key {
	p := ev.Object.(*corev1.Pod)
	if _, marked := stale(p, time.Time{}); ev.Type == client.Deleted || !marked {
		return nil
	}
	return []schema.Key{{Namespace: p.Namespace, Name: mark + p.Name}}
}

// stale says whether a pod is marked and does not end, and how long the mark may
// still stay. A kubelet may take any time until it ends a pod, and of a pod that
// has ended the mark says why.
func stale(p *corev1.Pod, now time.Time) (wait time.Duration, marked bool) {
	cond := podset.Condition(p, corev1.DisruptionTarget)
	if cond == nil || cond.Status != corev1.ConditionTrue || cond.Reason == corev1.PodReasonTerminationByKubelet || p.DeletionTimestamp != nil || podset.Done(p) {
		return 0, false
	}
	return max(cond.LastTransitionTime.Add(staleAfter).Sub(now), 0), true
}

// unmark takes the mark back when its time has come.
func (c *Controller) unmark(ctx context.Context, key schema.Key) (controller.Result, error) {
	p, ok := client.Cached[*corev1.Pod](c.cfg.Cache, key)
	if !ok {
		return controller.Result{}, nil
	}
	now := c.cfg.Now()
	wait, marked := stale(p, now)
	if !marked || wait > 0 {
		return controller.Result{RequeueAfter: wait}, nil
	}
	next := p.DeepCopy()
	podset.SetCondition(next, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(now), ObservedGeneration: p.Generation})
	if _, err := client.UpdateStatus(ctx, c.cfg.Client, next); err != nil && !apierrors.IsNotFound(err) {
		return controller.Result{}, fmt.Errorf("take DisruptionTarget back from pod %s: %w", key, err)
	}
	return controller.Result{}, nil
}
