package scheduler

import (
	"cmp"
	"context"
	"encoding/json"
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
	w.cfg.Recorder.Event(r.pod, corev1.EventTypeWarning, "FailedScheduling", r.message)
	if r.preemption.node != nil {
		w.evict(ctx, r)
	}
	if r.changed || r.preemption.node != nil {
		if err := w.setCondition(ctx, r); err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
			w.cfg.Log.Warn("condition not written", "pod", schema.KeyOf(r.pod), "err", err)
		}
	}
	return true
}

func (w *writer) setCondition(ctx context.Context, r report) error {
	now := metav1.NewTime(time.Now())
	status := map[string]any{"conditions": []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, ObservedGeneration: r.pod.Generation,
		Reason: cmp.Or(r.reason, corev1.PodReasonUnschedulable), Message: r.message, LastTransitionTime: transition(r.pod, now),
	}}}
	if r.preemption.node != nil {
		status["nominatedNodeName"] = r.preemption.node.name
	}
	return w.patchStatus(ctx, r.pod, status)
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

func (w *writer) patchStatus(ctx context.Context, pod *corev1.Pod, status map[string]any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		return fmt.Errorf("encode status of pod %s: %w", schema.KeyOf(pod), err)
	}
	_, err = w.cfg.Client.Patch(ctx, podResource, schema.KeyOf(pod), types.StrategicMergePatchType, patch, client.WriteOptions{Subresource: "status"})
	return err
}

// evict deletes the pods that make room for another.
func (w *writer) evict(ctx context.Context, r report) {
	for _, v := range r.preemption.victims {
		condition := map[string]any{"conditions": []corev1.PodCondition{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, ObservedGeneration: v.Generation,
			Reason: corev1.PodReasonPreemptionByScheduler, LastTransitionTime: metav1.NewTime(time.Now()),
			Message: fmt.Sprintf("%s: preempting to accommodate a higher priority pod", w.cfg.Name),
		}}}
		err := w.patchStatus(ctx, v, condition)
		if err == nil {
			err = w.cfg.Client.Delete(ctx, podResource, schema.KeyOf(v), client.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &v.UID}})
		}
		switch {
		case err == nil:
			w.cfg.Log.Info("pod preempted", "pod", schema.KeyOf(v), "by", schema.KeyOf(r.pod), "node", v.Spec.NodeName)
			w.cfg.Recorder.Event(v, corev1.EventTypeNormal, "Preempted", fmt.Sprintf("Preempted by pod %v on node %v", r.pod.UID, v.Spec.NodeName))
		case !apierrors.IsNotFound(err) && ctx.Err() == nil:
			w.cfg.Log.Warn("pod not preempted", "pod", schema.KeyOf(v), "by", schema.KeyOf(r.pod), "err", err)
		}
	}
}
