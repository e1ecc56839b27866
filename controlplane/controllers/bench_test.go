package controllers_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/controlplane/controller/podset"
	"github.com/writ-os/writ/controlplane/controllers"
	"github.com/writ-os/writ/controlplane/controllers/job"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

// BenchmarkDeployment500 measures the way from a Deployment of 500 replicas to
// 500 stored Pods, over a real store with fsync.
func BenchmarkDeployment500(b *testing.B) {
	log := slog.New(slog.DiscardHandler)
	st := store.New(store.Config{Dir: b.TempDir(), Log: log, Tick: 10 * time.Millisecond})
	reg := registry.New(registry.Config{Store: st, Log: log})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- st.Run(ctx) }()
	<-st.Ready()
	c := client.Local(reg, identity.System(user.KubeControllerManager), "kube-controller-manager")
	go func() {
		done <- controllers.Run(ctx, controllers.Config{Client: c, Cache: c.Cache(), CA: []byte("ca"), Log: log})
	}()
	defer func() {
		cancel()
		for range 2 {
			if err := <-done; err != nil && ctx.Err() == nil {
				b.Error(err)
			}
		}
	}()

	pods := schema.ResourceFor[*corev1.Pod]()
	n := 0
	for b.Loop() {
		b.StopTimer()
		ns := fmt.Sprintf("bench-%d", n)
		n++
		if _, err := client.Create(ctx, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, client.WriteOptions{}); err != nil {
			b.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond) // the service account, the CA, events
		full := make(chan struct{})
		count := 0
		sub, stop := context.WithCancel(ctx)
		if err := c.Cache().Subscribe(sub, pods, func(ev client.Event) {
			if ev.Type == client.Added && ev.Object.GetNamespace() == ns {
				if count++; count == 500 {
					close(full)
				}
			}
		}); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if _, err := client.Create(ctx, c, deployment(ns, 500), client.WriteOptions{}); err != nil {
			b.Fatal(err)
		}
		<-full
		b.StopTimer()
		stop()
		b.StartTimer()
	}
}

// BenchmarkClaim is what it costs a Deployment to find its ReplicaSet among
// those of 5,000 Deployments in the namespace.
func BenchmarkClaim(b *testing.B) {
	log := slog.New(slog.DiscardHandler)
	st := store.New(store.Config{Dir: b.TempDir(), Log: log, Tick: 10 * time.Millisecond})
	reg := registry.New(registry.Config{Store: st, Log: log})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- st.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	}()
	<-st.Ready()
	c := client.Local(reg, identity.System(user.KubeControllerManager), "kube-controller-manager")

	yes := true
	var ops []client.Op
	var owner *appsv1.Deployment
	for i := range 5000 {
		owner = deployment("default", 1)
		owner.Name, owner.UID = fmt.Sprintf("d-%d", i), types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i))
		rs := &appsv1.ReplicaSet{
			TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: owner.Name, Labels: owner.Spec.Template.Labels, OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "Deployment", Name: owner.Name, UID: owner.UID, Controller: &yes}}},
			Spec: appsv1.ReplicaSetSpec{Selector: owner.Spec.Selector, Template: owner.Spec.Template},
		}
		ops = append(ops, client.Op{Verb: client.VerbCreate, Resource: schema.ResourceOf(rs), Key: schema.KeyOf(rs), Object: rs})
	}
	if _, err := c.Transact(ctx, ops, false); err != nil {
		b.Fatal(err)
	}
	sel, err := metav1.LabelSelectorAsSelector(owner.Spec.Selector)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if mine, err := podset.Claim[*appsv1.ReplicaSet](ctx, c, c.Cache(), owner, sel); err != nil || len(mine) != 1 {
			b.Fatal(len(mine), err)
		}
	}
}

// BenchmarkJobReconcile is a look at a Job that has nothing to do, in a
// namespace of 10,000 pods of others.
func BenchmarkJobReconcile(b *testing.B) {
	log := slog.New(slog.DiscardHandler)
	st := store.New(store.Config{Dir: b.TempDir(), Log: log, Tick: 10 * time.Millisecond})
	reg := registry.New(registry.Config{Store: st, Log: log})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- st.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	}()
	<-st.Ready()
	c := client.Local(reg, identity.System(user.KubeControllerManager), "kube-controller-manager")

	one := int32(1)
	template := deployment("default", 1).Spec.Template
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	j, err := client.Create(ctx, c, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "j"},
		Spec: batchv1.JobSpec{Parallelism: &one, Completions: &one, Template: template}}, client.WriteOptions{})
	if err != nil {
		b.Fatal(err)
	}
	yes := true
	var ops []client.Op
	for i := range 10_000 {
		p := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("p-", i), OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "batch/v1", Kind: "Job", Name: "other", UID: "00000000-0000-4000-8000-000000000000", Controller: &yes}}}, Spec: template.Spec}
		ops = append(ops, client.Op{Verb: client.VerbCreate, Resource: schema.ResourceOf(p), Key: schema.KeyOf(p), Object: p})
		if len(ops) == 500 {
			if _, err := c.Transact(ctx, ops, false); err != nil {
				b.Fatal(err)
			}
			ops = nil
		}
	}
	r := job.New(controller.Tools{Client: c, Cache: c.Cache()})
	for range 3 { // it starts its pod
		if _, err := r.Reconcile(ctx, schema.KeyOf(j)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Reconcile(ctx, schema.KeyOf(j)); err != nil {
			b.Fatal(err)
		}
	}
}

func deployment(ns string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "writ.local/demo:v1", Ports: []corev1.ContainerPort{{ContainerPort: 8080}}}}},
			},
		},
	}
}
