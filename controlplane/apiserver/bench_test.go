package apiserver_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes"

	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/schema"
)

// fatPod has the weight of a pod in the wild: some 3 KB of JSON.
func fatPod(i int) *corev1.Pod {
	p := pod(fmt.Sprintf("pod-%06d", i))
	p.Kind, p.APIVersion = "Pod", "v1"
	p.Labels["pod-template-hash"] = "7d4b9c6f5"
	p.Annotations = map[string]string{"checksum/config": "0123456789abcdef0123456789abcdef"}
	p.Spec.NodeName = fmt.Sprintf("node-%03d", i%100)
	c := &p.Spec.Containers[0]
	for e := range 10 {
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", e), Value: "some value of a usual length"})
	}
	c.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}}
	p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	return p
}

// fill creates pods in the process, 32 at a time.
func (c *cluster) fill(b testing.TB, n int) {
	b.Helper()
	ctx := request.WithUser(context.Background(), identity.System(user.KubeControllerManager))
	r := schema.ResourceFor[*corev1.Pod]()
	var wg sync.WaitGroup
	var next atomic.Int64
	for range 32 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
				if _, err := c.reg.Create(ctx, r, fatPod(i), clientOptions); err != nil {
					b.Error(err)
					return
				}
			}
		}()
	}
	wg.Wait()
}

func BenchmarkList5000Pods(b *testing.B) {
	c := newCluster(b)
	c.fill(b, 5000)
	hc := c.http(b)
	for _, bm := range []struct{ name, accept, path string }{
		{"json", "application/json", "/api/v1/pods"},
		{"protobuf", "application/vnd.kubernetes.protobuf", "/api/v1/pods"},
		{"table", "application/json;as=Table;v=v1;g=meta.k8s.io", "/api/v1/pods"},
		{"metadata", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "/api/v1/pods"},
		{"node", "application/json", "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-007"},
		{"label", "application/json", "/api/v1/pods?labelSelector=app%3Dnone"},
		{"phase", "application/json", "/api/v1/pods?fieldSelector=status.phase%3DRunning"},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			buf := make([]byte, 256<<10)
			for b.Loop() {
				req, _ := http.NewRequest(http.MethodGet, c.addr+bm.path, nil)
				req.Header.Set("Accept", bm.accept)
				req.Header.Set("Authorization", "Bearer admin")
				resp, err := hc.Do(req)
				if err != nil {
					b.Fatal(err)
				}
				n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, resp.Body, buf)
				resp.Body.Close()
				if err != nil || resp.StatusCode != http.StatusOK {
					b.Fatal(resp.Status, err)
				}
				b.SetBytes(n)
			}
		})
	}
}

func BenchmarkGet(b *testing.B) {
	c := newCluster(b)
	c.fill(b, 100)
	hc := c.http(b)
	b.ReportAllocs()
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			req, _ := http.NewRequest(http.MethodGet, c.addr+"/api/v1/namespaces/default/pods/pod-000007", nil)
			req.Header.Set("Authorization", "Bearer admin")
			resp, err := hc.Do(req)
			if err != nil {
				b.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	})
}

// BenchmarkCreate is 16 clients that create ConfigMaps over TLS, as client-go
// does it in protobuf.
func BenchmarkCreate(b *testing.B) {
	c := newCluster(b)
	cfg := c.config("admin")
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	cs, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	var next atomic.Int64
	for range 16 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := int(next.Add(1)); i <= b.N; i = int(next.Add(1)) {
				if _, err := cs.CoreV1().ConfigMaps("default").Create(context.Background(), configMap(i), metav1.CreateOptions{}); err != nil {
					b.Error(err)
					return
				}
			}
		}()
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "creates/s")
}

// BenchmarkWatchFanOut is one writer and 100 watchers: the time from a write
// until all have seen it.
func BenchmarkWatchFanOut(b *testing.B) {
	c := newCluster(b)
	hc := c.http(b)
	const watchers = 100
	var seen atomic.Int64
	done := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	target := atomic.Int64{}
	for range watchers {
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, c.addr+"/api/v1/namespaces/default/configmaps?watch=true&resourceVersion=0", nil)
		req.Header.Set("Authorization", "Bearer admin")
		resp, err := hc.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			defer resp.Body.Close()
			sc := bufio.NewScanner(resp.Body)
			sc.Buffer(nil, 1<<20)
			for sc.Scan() {
				if seen.Add(1) == target.Load() {
					done <- struct{}{}
				}
			}
		}()
	}
	r := schema.ResourceFor[*corev1.ConfigMap]()
	user := request.WithUser(context.Background(), &user.DefaultInfo{Name: "w", Groups: []string{user.SystemPrivilegedGroup}})
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		target.Add(watchers)
		cm := configMap(i)
		cm.Kind, cm.APIVersion = "ConfigMap", "v1"
		if _, err := c.reg.Create(user, r, cm, clientOptions); err != nil {
			b.Fatal(err)
		}
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			b.Fatalf("watchers have seen %d events of %d", seen.Load(), target.Load())
		}
	}
	b.StopTimer()
	cancel()
	wg.Wait()
}

// BenchmarkIdleWatch is what a watch costs that nothing happens on, the
// connection not counted.
func BenchmarkIdleWatch(b *testing.B) {
	c := newCluster(b)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	before := inUse()
	for range b.N {
		req := httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/pods?watch=1&allowWatchBookmarks=true&resourceVersion=0", nil)
		req.Header.Set("Authorization", "Bearer admin")
		wg.Add(1)
		began := make(chan struct{}, 1)
		go func() {
			defer wg.Done()
			c.srv.Handler().ServeHTTP(idle{http.Header{}, began}, req)
		}()
		<-began
	}
	b.ReportMetric(float64(inUse()-before)/float64(b.N), "B/watch")
	cancel()
	wg.Wait()
}

func inUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// idle is a client that only waits.
type idle struct {
	header http.Header
	began  chan struct{}
}

func (w idle) Header() http.Header         { return w.header }
func (w idle) Write(b []byte) (int, error) { return len(b), nil }
func (w idle) WriteHeader(int)             {}
func (w idle) Flush() {
	select {
	case w.began <- struct{}{}:
	default:
	}
}
