package scheduler

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// report says that a pod has got no node.
type report struct {
	pod     *corev1.Pod
	message string
	reason  string // of the condition; default Unschedulable
	// changed says that the condition on the pod says something else.
	changed    bool
	preemption preemption
}

// reportOne writes one report; false when there was none.
func (w *writer) reportOne(ctx context.Context) bool {
	w.mu.Lock()
	var r report
	found := false
	for key := range w.reports {
		r, found = w.reports[key], true
		delete(w.reports, key)
		break
	}
	w.mu.Unlock()
	if !found {
		return false
	}
	if !w.waits(r.pod) {
		return true
	}
	w.cfg.Recorder.Event(r.pod, corev1.EventTypeWarning, "FailedScheduling", r.message)
	if !r.changed && r.preemption.node == nil {
		return true
	}
	// The condition first: where it is refused because the pod has its node,
	// nobody has to leave for it.
	written, err := w.setCondition(ctx, r)
	if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		w.cfg.Log.Warn("condition not written", "pod", schema.KeyOf(r.pod), "err", err)
	}
	if r.preemption.node == nil || err == nil && !written {
		return true
	}
	if err == nil {
		err = w.evict(ctx, r)
	}
	if err != nil && ctx.Err() == nil {
		w.post(notEvicted{schema.KeyOf(r.pod), r.pod.UID, err})
	}
	return true
}

// waits says whether a pod waits for a node still: no binding of it is on the
// way, and nobody has bound, replaced or ended it since it was looked at.
func (w *writer) waits(pod *corev1.Pod) bool {
	w.mu.Lock()
	binding := w.placing[schema.KeyOf(pod)]
	w.mu.Unlock()
	if binding {
		return false
	}
	now, ok := client.Cached[*corev1.Pod](w.cfg.Cache, schema.KeyOf(pod))
	return ok && stillWaits(now, pod)
}

func stillWaits(now, seen *corev1.Pod) bool {
	return now.UID == seen.UID && now.Spec.NodeName == "" && now.DeletionTimestamp == nil
}

// conditionTries is how often the condition of a pod is written that others
// change at the same time.
const conditionTries = 5

// setCondition says in the pod's status why it waits; false when it does not
// any more. The write holds for the state that was looked at alone: a pod that
// is bound in between keeps its condition.
func (w *writer) setCondition(ctx context.Context, r report) (bool, error) {
	var last error
	for range conditionTries {
		pod, err := client.Get[*corev1.Pod](ctx, w.cfg.Client, schema.KeyOf(r.pod))
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if !stillWaits(pod, r.pod) || !w.waits(r.pod) {
			return false, nil
		}
		status := map[string]any{"conditions": []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, ObservedGeneration: r.pod.Generation,
			Reason: cmp.Or(r.reason, corev1.PodReasonUnschedulable), Message: r.message, LastTransitionTime: transition(pod, metav1.NewTime(time.Now())),
		}}}
		if r.preemption.node != nil {
			status["nominatedNodeName"] = r.preemption.node.name
		}
		if last = w.patchStatus(ctx, pod, pod.ResourceVersion, status); last == nil || !apierrors.IsConflict(last) {
			return last == nil, last
		}
	}
	return false, last
}

// transition keeps the time of a condition that is False already.
func transition(pod *corev1.Pod, now metav1.Time) metav1.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.LastTransitionTime
		}
	}
	return now
}

// patchStatus merges into the status of a pod, of the version alone where one
// is given.
func (w *writer) patchStatus(ctx context.Context, pod *corev1.Pod, version string, status map[string]any) error {
	meta := map[string]any{"uid": pod.UID}
	if version != "" {
		meta["resourceVersion"] = version
	}
	patch, err := json.Marshal(map[string]any{"metadata": meta, "status": status})
	if err != nil {
		return fmt.Errorf("encode status of pod %s: %w", schema.KeyOf(pod), err)
	}
	_, err = w.cfg.Client.Patch(ctx, podResource, schema.KeyOf(pod), types.StrategicMergePatchType, patch, client.WriteOptions{Subresource: "status"})
	return err
}

// evict deletes the pods that make room for another, as long as that waits. It
// returns what kept one of them.
func (w *writer) evict(ctx context.Context, r report) error {
	var errs []error
	for _, v := range r.preemption.victims {
		if !w.waits(r.pod) {
			break
		}
		condition := map[string]any{"conditions": []corev1.PodCondition{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, ObservedGeneration: v.Generation,
			Reason: corev1.PodReasonPreemptionByScheduler, LastTransitionTime: metav1.NewTime(time.Now()),
			Message: fmt.Sprintf("%s: preempting to accommodate a higher priority pod", w.cfg.Name),
		}}}
		err := w.patchStatus(ctx, v, "", condition)
		if err == nil {
			err = w.cfg.Client.Delete(ctx, podResource, schema.KeyOf(v), client.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &v.UID}})
		}
		switch {
		case err == nil:
			w.cfg.Log.Info("pod preempted", "pod", schema.KeyOf(v), "by", schema.KeyOf(r.pod), "node", v.Spec.NodeName)
			w.cfg.Recorder.Event(v, corev1.EventTypeNormal, "Preempted", fmt.Sprintf("Preempted by pod %v on node %v", r.pod.UID, v.Spec.NodeName))
		case !apierrors.IsNotFound(err):
			errs = append(errs, fmt.Errorf("delete pod %s: %w", schema.KeyOf(v), err))
		}
	}
	return errors.Join(errs...)
}
