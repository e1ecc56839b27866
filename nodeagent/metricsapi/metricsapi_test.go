package metricsapi

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// summary is a node whose pod shop/web uses half a core, after s seconds.
func summary(node string, s int) *statsapi.Summary {
	at := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(s) * time.Second))
	cpu := &statsapi.CPUStats{Time: at, UsageCoreNanoSeconds: new(uint64(time.Duration(s) * time.Second / 2))}
	memory := &statsapi.MemoryStats{Time: at, WorkingSetBytes: new(uint64(64 << 20))}
	return &statsapi.Summary{
		Node: statsapi.NodeStats{NodeName: node, CPU: cpu, Memory: memory},
		Pods: []statsapi.PodStats{{
			PodRef:     statsapi.PodReference{Namespace: "shop", Name: "web-" + node},
			Containers: []statsapi.ContainerStats{{Name: "c", CPU: cpu, Memory: memory}},
		}},
	}
}

func TestAPI(t *testing.T) {
	meta := func(ns, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{"is": name}}
	}
	seconds := 0
	a := New(Config{
		Nodes: func() []*corev1.Node {
			return []*corev1.Node{{ObjectMeta: meta("", "n1")}, {ObjectMeta: meta("", "n2")}}
		},
		Pods: func(ns string) []*corev1.Pod {
			if ns != "" && ns != "shop" {
				return nil
			}
			return []*corev1.Pod{
				{ObjectMeta: meta("shop", "web-n1"), Spec: corev1.PodSpec{NodeName: "n1"}},
				{ObjectMeta: meta("shop", "web-n2"), Spec: corev1.PodSpec{NodeName: "elsewhere"}},
			}
		},
		Fetch: func(_ context.Context, n *corev1.Node) (*statsapi.Summary, error) {
			if n.Name == "n2" && seconds == 30 {
				return nil, errors.New("away")
			}
			return summary(n.Name, seconds), nil
		},
	})
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		a.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	a.ask(t.Context())
	if code, text := get("/apis/metrics.k8s.io/v1beta1/nodes"); code != 200 || !strings.Contains(text, `"items":[]`) {
		t.Errorf("figures from one answer: %d %s", code, text)
	}
	seconds = 15
	a.ask(t.Context())
	for path, want := range map[string]string{
		"/apis/metrics.k8s.io":                                              `"preferredVersion":{"groupVersion":"metrics.k8s.io/v1beta1"`,
		"/apis/metrics.k8s.io/v1beta1":                                      `"name":"pods","singularName":"","namespaced":true,"kind":"PodMetrics","verbs":["get","list"]`,
		"/apis/metrics.k8s.io/v1beta1/nodes/n1":                             `"timestamp":"2026-01-02T03:04:20Z","window":"15s","usage":{"cpu":"500m","memory":"64Mi"}`,
		"/apis/metrics.k8s.io/v1beta1/nodes?labelSelector=is%3Dn2":          `"items":[{"kind":"NodeMetrics","apiVersion":"metrics.k8s.io/v1beta1","metadata":{"name":"n2"`,
		"/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods/web-n1":          `"containers":[{"name":"c","usage":{"cpu":"500m","memory":"64Mi"}}]`,
		"/apis/metrics.k8s.io/v1beta1/pods?fieldSelector=metadata.name%3Dx": `"items":[]`,
		"/apis/metrics.k8s.io/v1beta1/namespaces/other/pods":                `"items":[]`,
	} {
		if code, text := get(path); code != 200 || !strings.Contains(text, want) {
			t.Errorf("GET %s: %d %s", path, code, text)
		}
	}
	for path, want := range map[string]string{
		"/apis/metrics.k8s.io/v1beta1/nodes/none":                  `nodes.metrics.k8s.io \"none\" not found`,
		"/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods/web-n2": `pods.metrics.k8s.io \"web-n2\" not found`,
	} {
		if code, text := get(path); code != 404 || !strings.Contains(text, want) {
			t.Errorf("GET %s: %d %s", path, code, text)
		}
	}
	seconds = 30
	a.ask(t.Context())
	if code, _ := get("/apis/metrics.k8s.io/v1beta1/nodes/n2"); code != 404 {
		t.Errorf("a node that is away has figures: %d", code)
	}
}
