package store

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/writ-os/writ/schema"
)

func cpu() time.Duration {
	var ru syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &ru)
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

// fullPod is a pod as a Deployment's are: about 1.5 KB encoded.
func fullPod(i int) *corev1.Pod {
	p := pod("default", fmt.Sprintf("web-7d4b9c6f5-%05d", i), fmt.Sprintf("node-%d", i%50), "8d5ad0d1-7e52-4a2c-bd22-9a6a8f6a33b1")
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("64Mi")}
	p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "b"}, {Name: "C", Value: "d"}}
	p.Spec.Volumes = []corev1.Volume{{Name: "kube-api-access", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	p.Spec.Tolerations = []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute"}}
	for _, c := range []corev1.PodConditionType{"PodScheduled", "Initialized", "ContainersReady", "Ready"} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: c, Status: "True"})
	}
	p.Status.Phase, p.Status.PodIP, p.Status.HostIP = corev1.PodRunning, "10.244.1.7", "192.168.1.2"
	return p
}

func BenchmarkCreate(b *testing.B) {
	for _, writers := range []int{1, 16} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			s, _ := open(b, Config{})
			var next atomic.Int64
			b.SetParallelism(max(writers/2, 1))
			if writers == 1 {
				b.SetParallelism(1)
			}
			c := cpu()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					o := configMap("default", fmt.Sprintf("c-%d", next.Add(1)), "some value that a person wrote")
					if _, err := s.Txn(context.Background(), []Write{create(o)}); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64((cpu()-c).Microseconds())/float64(b.N), "cpu-us/op")
		})
	}
}

func BenchmarkTxn4000(b *testing.B) {
	s, _ := open(b, Config{})
	c := cpu()
	for b.Loop() {
		var w []Write
		for i := range 4000 {
			p := fullPod(i)
			w = append(w, Write{Resource: pods, Key: schema.KeyOf(p), Object: p, Unconditional: true})
		}
		if _, err := s.Txn(context.Background(), w); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((cpu()-c).Microseconds())/float64(b.N)/4000, "cpu-us/object")
}

func BenchmarkReload5000(b *testing.B) {
	dir := b.TempDir()
	s, stop := open(b, Config{Dir: dir})
	for at := 0; at < 5000; at += 500 {
		var w []Write
		for i := at; i < at+500; i++ {
			w = append(w, create(fullPod(i)))
		}
		commit(b, s, w...)
	}
	stop()
	for b.Loop() {
		_, stop := open(b, Config{Dir: dir})
		b.StopTimer()
		stop()
		b.StartTimer()
	}
}

func BenchmarkSnapshotList(b *testing.B) {
	s, _ := open(b, Config{})
	var w []Write
	for i := range 5000 {
		w = append(w, create(fullPod(i)))
	}
	commit(b, s, w...)
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			n := 0
			for range s.Snapshot(pods).All() {
				n++
			}
		}
	})
	b.Run("node", func(b *testing.B) {
		for b.Loop() {
			n := 0
			for range s.Snapshot(pods).Index(IndexNode, "node-7") {
				n++
			}
		}
	})
	b.Run("get", func(b *testing.B) {
		k := schema.KeyOf(fullPod(77))
		for b.Loop() {
			s.Get(pods, k)
		}
	})
}
