package registry

import (
	"encoding/json"
	"fmt"
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
