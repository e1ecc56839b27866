package pod

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// reporter is what the actor knows about telling the server.
type reporter struct {
	writing  bool
	retryAt  time.Time
	failures int
	// accepted is the last status that the server took, at a version: it may
	// keep something else than it was told.
	accepted *corev1.PodStatus
	version  string
}

// sent says whether the server has the newest status, or has taken it.
func (w *worker) sent() bool {
	r := &w.report
	return w.base == nil || equality.Semantic.DeepEqual(w.base.Status, w.last) ||
		(r.accepted != nil && r.version == w.base.ResourceVersion && equality.Semantic.DeepEqual(*r.accepted, w.last))
}

// send tells the server the status if it has changed, one write at a time. It
// returns when to try again after a failure.
func (w *worker) send(ctx context.Context, removed bool) time.Time {
	r := &w.report
	if removed || r.writing || w.sent() {
		return time.Time{}
	}
	if time.Now().Before(r.retryAt) {
		return r.retryAt
	}
	base, status := w.base, w.last.DeepCopy()
	patch, err := statusPatch(base, status)
	if err != nil {
		w.p.log.Error("patch pod status", "pod", w.pod.Namespace+"/"+w.pod.Name, "err", err)
		return time.Time{}
	}
	r.writing = true
	w.op(func() func() {
		o, err := w.p.cfg.Client.Patch(ctx, schema.ResourceFor[*corev1.Pod](), schema.KeyOf(base),
			types.StrategicMergePatchType, patch, client.WriteOptions{Subresource: "status", FieldManager: "kubelet"})
		return func() { w.wrote(ctx, o, status, err) }
	})
	return time.Time{}
}

func (w *worker) wrote(ctx context.Context, o schema.Object, status *corev1.PodStatus, err error) {
	r := &w.report
	r.writing = false
	switch {
	case err == nil:
		r.failures, r.retryAt = 0, time.Time{}
		if pod, ok := o.(*corev1.Pod); ok {
			r.accepted, r.version = status, pod.ResourceVersion
			if newer(pod, w.base) {
				w.base = pod
			}
		}
	case apierrors.IsNotFound(err), apierrors.IsConflict(err) && gone(err):
		w.deleted = true
	case ctx.Err() == nil:
		r.retryAt = time.Now().Add(retry(r.failures))
		r.failures++
		if r.failures == 1 || r.failures%10 == 0 {
			w.p.log.Warn("report pod status", "pod", w.pod.Namespace+"/"+w.pod.Name, "err", err)
		}
	}
}

// gone says whether a conflict is about the UID: another pod has the name.
func gone(err error) bool {
	s, ok := err.(apierrors.APIStatus)
	if !ok || s.Status().Details == nil {
		return false
	}
	for _, c := range s.Status().Details.Causes {
		if c.Field == "metadata.uid" {
			return true
		}
	}
	return false
}

// statusPatch is the change from one status to another. The UID makes it fail
// for another pod of the same name.
func statusPatch(base *corev1.Pod, status *corev1.PodStatus) ([]byte, error) {
	from, err := json.Marshal(&corev1.Pod{Status: base.Status})
	if err != nil {
		return nil, err
	}
	to, err := json.Marshal(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: base.UID}, Status: *status})
	if err != nil {
		return nil, err
	}
	b, err := strategicpatch.CreateTwoWayMergePatch(from, to, &corev1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("diff pod status: %w", err)
	}
	return b, nil
}

// deletePod makes the server forget the pod, if it is still this one.
func (w *worker) deletePod(ctx context.Context) {
	w.busy = true
	target := w.pod
	if isStatic(w.pod) {
		target = w.base
	}
	w.op(func() func() {
		var err error
		if target != nil {
			zero := int64(0)
			err = w.p.cfg.Client.Delete(ctx, schema.ResourceFor[*corev1.Pod](), schema.KeyOf(target), client.DeleteOptions{
				GracePeriodSeconds: &zero, Preconditions: &metav1.Preconditions{UID: &target.UID},
			})
		}
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			err = nil
		}
		return func() {
			w.busy = false
			w.settle(err, w.pod)
			w.deleted = w.deleted || err == nil
		}
	})
}
