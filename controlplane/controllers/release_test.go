package controllers_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/controlplane/controller/controllertest"
	"github.com/writ-os/writ/controlplane/controllers/job"
	"github.com/writ-os/writ/schema"
)

// patched counts the patches that a controller makes.
type patched struct {
	client.Backend
	n atomic.Int64
}

func (p *patched) Patch(ctx context.Context, r *schema.Resource, k schema.Key, t types.PatchType, data []byte, w client.WriteOptions) (schema.Object, error) {
	p.n.Add(1)
	return p.Backend.Patch(ctx, r, k, t, data, w)
}

// A real server takes the finalizers off all pods of a Job in one transaction:
// none is patched by itself.
func TestJobReleasesInOneTransaction(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a second")
	}
	c := &patched{Backend: openRegistry(t)}
	ctx := t.Context()
	if _, err := client.Create(ctx, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	n := int32(20)
	template := deployment("default", 1).Spec.Template
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	if _, err := client.Create(ctx, c, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "j"},
		Spec: batchv1.JobSpec{Parallelism: &n, Completions: &n, Template: template}}, client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	r := job.New(controller.Tools{Client: controller.Noting(c), Cache: c.Cache()})
	controllertest.Run(t, controller.Config{Reconciler: r, Watches: r.Watches(), Cache: c.Cache(), Workers: 1})
	within := func(what string, ok func() bool) {
		t.Helper()
		for range 1000 {
			if ok() {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatalf("not %s", what)
	}
	pods := func() []*corev1.Pod { return client.CachedList[*corev1.Pod](c.Cache(), "default") }
	within("20 pods", func() bool { return len(pods()) == int(n) })
	var ops []client.Op
	for _, p := range pods() {
		next := p.DeepCopy()
		next.Status.Phase = corev1.PodSucceeded
		ops = append(ops, client.Op{Verb: client.VerbUpdate, Subresource: "status", Resource: schema.ResourceOf(p), Key: schema.KeyOf(p), Object: next})
	}
	if _, err := c.Transact(ctx, ops, false); err != nil {
		t.Fatal(err)
	}
	within("complete", func() bool {
		j, _ := client.Cached[*batchv1.Job](c.Cache(), schema.Key{Namespace: "default", Name: "j"})
		return j != nil && has(j, batchv1.JobComplete)
	})
	for _, p := range pods() {
		if len(p.Finalizers) > 0 {
			t.Errorf("%s is held by %v", p.Name, p.Finalizers)
		}
	}
	if got := c.n.Load(); got != 0 {
		t.Errorf("%d patches", got)
	}
}
