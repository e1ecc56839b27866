package registry

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

func deployment(name string) *appsv1.Deployment {
	l := map[string]string{"app": name}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: l},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: l},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: l},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "web", Image: "registry.example.com/web:v1",
					Ports: []corev1.ContainerPort{{ContainerPort: 8080, Name: "http", Protocol: "TCP"}},
					Env:   []corev1.EnvVar{{Name: "A", Value: "b"}},
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
						"cpu": resource.MustParse("100m"), "memory": resource.MustParse("64Mi")}},
				}}},
			},
		},
	}
}

// declared is the JSON form of an object as Git would have it.
func declared(t testing.TB, o schema.Object) []byte {
	t.Helper()
	b, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	delete(m, "status")
	delete(m["metadata"].(map[string]any), "creationTimestamp")
	b, err = json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func applyOps(t testing.TB, n int) []client.Op {
	var ops []client.Op
	for i := range n {
		var o schema.Object
		name := fmt.Sprintf("o-%05d", i)
		if i%2 == 0 {
			o = deployment(name)
		} else {
			c := configMap(name, "v")
			c.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
			o = c
		}
		ops = append(ops, client.Op{
			Verb: client.VerbApply, Resource: schema.ResourceOf(o), Key: schema.KeyOf(o), Object: o, Fields: declared(t, o), FieldManager: "writ",
		})
	}
	return ops
}

func cpu() time.Duration {
	var ru syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &ru)
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

func BenchmarkTransact4000(b *testing.B) {
	ctx := as("system:writ:reconciler")
	for b.Loop() {
		b.StopTimer()
		g, stop := open(b, b.TempDir())
		ops := applyOps(b, 4000)
		c := cpu()
		b.StartTimer()
		if _, err := g.Transact(ctx, ops, false); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		b.ReportMetric((cpu()-c).Seconds()*1000, "cpu-ms")
		c = cpu()
		began := time.Now()
		if _, err := g.Transact(ctx, ops, false); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric((cpu()-c).Seconds()*1000, "again-cpu-ms")
		b.ReportMetric(time.Since(began).Seconds()*1000, "again-ms")
		stop()
		b.StartTimer()
	}
}

// pushOps are the writes of a push of new files with an object each: a tenth
// Deployments, three tenths Services, and ConfigMaps.
func pushOps(t testing.TB, files int) (ops []client.Op) {
	for i := range files {
		var o schema.Object
		name := fmt.Sprintf("o-%05d", i)
		switch i % 10 {
		case 0:
			o = deployment(name)
		case 1, 2, 3:
			o = &corev1.Service{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
				Spec: corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Port: 80}}},
			}
		default:
			c := configMap(name, "v")
			c.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
			o = c
		}
		r := schema.ResourceOf(o)
		inv := &v1alpha1.Inventory{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Inventory"},
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: v1alpha1.InventorySpec{
				Repository: "main", File: name + ".yaml", Blob: strings.Repeat("a", 40), Commit: strings.Repeat("b", 40), Author: "Jane", Time: metav1.Now(),
				Objects: []v1alpha1.InventoryObject{{Group: r.Group, Version: r.Version, Kind: r.Kind, Namespace: "default", Name: name, Line: 1, Hash: strings.Repeat("c", 64)}},
			},
		}
		ops = append(ops,
			client.Op{Verb: client.VerbApply, Resource: r, Key: schema.KeyOf(o), Object: o, Fields: declared(t, o), FieldManager: "writ", Force: true},
			client.Op{Verb: client.VerbCreate, Resource: schema.ResourceOf(inv), Key: schema.KeyOf(inv), Object: inv, ResourceVersion: "0", FieldManager: "writ"})
	}
	return ops
}

// BenchmarkPush is what the registry does for a push of 4,000 new files: it is
// asked whether it would accept all of it, and then takes it.
func BenchmarkPush(b *testing.B) {
	ctx := as("system:writ:reconciler")
	for name, dry := range map[string]bool{"dry": true, "real": false} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				g, stop := open(b, b.TempDir())
				ops := pushOps(b, 4000)
				if _, err := g.Transact(ctx, pushOps(b, 20), true); err != nil { // what a process does once
					b.Fatal(err)
				}
				c := cpu()
				b.StartTimer()
				if _, err := g.Transact(ctx, ops, dry); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				b.ReportMetric((cpu()-c).Seconds()*1000, "cpu-ms")
				stop()
				b.StartTimer()
			}
		})
	}
}

func pod(name string) *corev1.Pod {
	d := deployment("web")
	yes := true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: d.Labels, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-1", UID: "8d5ad0d1-7e52-4a2c-bd22-9a6a8f6a33b1", Controller: &yes}}},
		Spec: d.Spec.Template.Spec,
	}
}

func BenchmarkCreatePod(b *testing.B) {
	for _, writers := range []int{1, 16} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			g, _ := open(b, b.TempDir())
			ctx := asComponent("system:kube-controller-manager")
			if _, err := g.Create(ctx, pods, pod("first"), client.WriteOptions{FieldManager: "m"}); err != nil {
				b.Fatal(err)
			}
			var next atomic.Int64
			c := cpu()
			b.ResetTimer()
			b.SetParallelism(writers / 2)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := g.Create(ctx, pods, pod(fmt.Sprintf("p-%d", next.Add(1))), client.WriteOptions{FieldManager: "m"}); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64((cpu()-c).Microseconds())/float64(b.N), "cpu-us/op")
		})
	}
}
