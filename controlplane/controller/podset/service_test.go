package podset

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

func serviceOf(name string, selector map[string]string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.ServiceSpec{Selector: selector}}
}

func TestWakeServices(t *testing.T) {
	f := client.NewFake(serviceOf("web", map[string]string{"app": "web"}), serviceOf("canary", map[string]string{"app": "web", "track": "canary"}), serviceOf("none", nil))
	pod := func(l map[string]string, ip string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p", Labels: l}, Status: corev1.PodStatus{PodIP: ip}}
	}
	web, canary := map[string]string{"app": "web"}, map[string]string{"app": "web", "track": "canary", "x": "y"}
	for _, c := range []struct {
		name     string
		old, now *corev1.Pod
		want     string
	}{
		{"new", nil, pod(canary, ""), "canary web "},
		{"leaves one", pod(canary, ""), pod(web, ""), "canary web "},
		{"same labels, another address", pod(web, ""), pod(web, "10.244.0.2"), "web "},
		{"nothing that a service sees", pod(web, ""), pod(web, ""), ""},
		{"no labels", nil, pod(nil, ""), ""},
		{"an empty value is no value", nil, pod(map[string]string{"app": ""}, ""), ""},
	} {
		ev := client.Event{Type: client.Added, Object: c.now}
		if c.old != nil {
			ev.Type, ev.Old = client.Modified, c.old
		}
		got := ""
		for _, k := range WakeServices(f.Cache())(ev) {
			got += k.Name + " "
		}
		if got != c.want {
			t.Errorf("%s: wakes %q, want %q", c.name, got, c.want)
		}
	}
}

// static is a cache whose lists cost nothing.
type static struct {
	client.Cache
	list []schema.Object
}

func (s static) List(*schema.Resource, string) []schema.Object { return s.list }

func BenchmarkWakeServices(b *testing.B) {
	var list []schema.Object
	for i := range 500 {
		list = append(list, serviceOf(fmt.Sprint("s", i), map[string]string{"app": fmt.Sprint("a", i), "tier": "web"}))
	}
	wake := WakeServices(static{list: list})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p", Labels: map[string]string{"app": "a7", "tier": "web"}}}
	b.ReportAllocs()
	for b.Loop() {
		if len(wake(client.Event{Type: client.Added, Object: pod})) != 1 {
			b.Fatal("woke the wrong ones")
		}
	}
}
