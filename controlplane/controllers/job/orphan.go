package job

import (
	"context"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller/podset"
	"github.com/writ-os/writ/schema"
)

// An orphan is a pod with our finalizer whose Job is gone: it was deleted, or
// another of its name has come. Nobody else would let the pod go. Orphans have
// keys of their own, so that no Job has to look for them among all pods.

// orphanMark tells the key of an orphan from that of a Job: no name has a "/".
const orphanMark = "orphan/"

func orphanKey(p schema.Object) schema.Key {
	return schema.Key{Namespace: p.GetNamespace(), Name: orphanMark + p.GetName()}
}

// orphanOf returns the pod that the key of an orphan names.
func orphanOf(k schema.Key) (pod schema.Key, ok bool) {
	name, ok := strings.CutPrefix(k.Name, orphanMark)
	return schema.Key{Namespace: k.Namespace, Name: name}, ok
}

// wakeByJob wakes a Job, and the pods of one that has gone.
func (c *Controller) wakeByJob(ev client.Event) []schema.Key {
	keys := []schema.Key{schema.KeyOf(ev.Object)}
	gone := ev.Object
	if ev.Type != client.Deleted {
		if gone = ev.Old; gone == nil || gone.GetUID() == ev.Object.GetUID() {
			return keys
		}
	}
	for _, p := range podset.PodsOf(c.cfg.Cache, gone.GetUID()) {
		if tracked(p) {
			keys = append(keys, orphanKey(p))
		}
	}
	return keys
}

// wakeByPod wakes the Job of a pod, or the pod itself where there is none.
func (c *Controller) wakeByPod(ev client.Event, byOwner func(client.Event) []schema.Key) []schema.Key {
	keys := byOwner(ev)
	if p := ev.Object.(*corev1.Pod); ev.Type != client.Deleted && c.orphaned(p) {
		keys = append(keys, orphanKey(p))
	}
	return keys
}

// orphaned says that the cache shows a pod whose Job it does not show.
func (c *Controller) orphaned(p *corev1.Pod) bool {
	key, uid, ok := jobOfPod(p)
	if !ok || !tracked(p) {
		return false
	}
	job, found := client.Cached[*batchv1.Job](c.cfg.Cache, key)
	return !found || job.UID != uid
}

// jobOfPod returns which Job a pod says it is of.
func jobOfPod(p *corev1.Pod) (job schema.Key, uid types.UID, ok bool) {
	ref := metav1.GetControllerOfNoCopy(p)
	if ref == nil || ref.Kind != "Job" || ref.APIVersion != batchv1.SchemeGroupVersion.String() {
		return schema.Key{}, "", false
	}
	return schema.Key{Namespace: p.Namespace, Name: ref.Name}, ref.UID, true
}

// free takes the finalizer off an orphan, once the server says too that its Job
// is gone: a cache may show a pod before the Job that made it.
func (c *Controller) free(ctx context.Context, key schema.Key) error {
	p, ok := client.Cached[*corev1.Pod](c.cfg.Cache, key)
	if !ok || !c.orphaned(p) {
		return nil
	}
	name, uid, _ := jobOfPod(p)
	job, err := client.Get[*batchv1.Job](ctx, c.cfg.Client, name)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read job %s of pod %s: %w", name, key, err)
	}
	if err == nil && job.UID == uid {
		return nil
	}
	return c.release(ctx, []*corev1.Pod{p})
}
