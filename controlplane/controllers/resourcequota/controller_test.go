package resourcequota

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller/controllertest"
	"github.com/writ-os/writ/schema"
)

func pod(name, cpu string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}}, Status: corev1.PodStatus{Phase: phase}}
}

func TestReconcile(t *testing.T) {
	key := schema.Key{Namespace: "ns", Name: "q"}
	q := &corev1.ResourceQuota{TypeMeta: metav1.TypeMeta{Kind: "ResourceQuota", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "q"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			corev1.ResourcePods: resource.MustParse("5"), corev1.ResourceRequestsCPU: resource.MustParse("2"),
			"count/configmaps": resource.MustParse("9"), corev1.ResourceServices: resource.MustParse("3"),
		}}}
	other := pod("other", "3", corev1.PodRunning)
	other.Namespace = "elsewhere"
	f := client.NewFake(q, pod("a", "250m", corev1.PodRunning), pod("b", "500m", corev1.PodPending), pod("done", "1", corev1.PodSucceeded), other,
		&corev1.ConfigMap{TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cm"}})
	c := New(Config{Tools: controllertest.Tools(f)})
	res, err := c.Reconcile(t.Context(), key)
	if err != nil || res.RequeueAfter != resync {
		t.Fatalf("%v %v", res, err)
	}
	got, _ := client.Cached[*corev1.ResourceQuota](f.Cache(), key)
	for name, want := range map[corev1.ResourceName]string{corev1.ResourcePods: "2", corev1.ResourceRequestsCPU: "750m", "count/configmaps": "1", corev1.ResourceServices: "0"} {
		if u := got.Status.Used[name]; u.String() != want {
			t.Errorf("used %s = %s, want %s", name, u.String(), want)
		}
		if h := got.Status.Hard[name]; h.Cmp(q.Spec.Hard[name]) != 0 {
			t.Errorf("hard %s = %s", name, h.String())
		}
	}
	version := got.ResourceVersion
	if _, err := c.Reconcile(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if got, _ = client.Cached[*corev1.ResourceQuota](f.Cache(), key); got.ResourceVersion != version {
		t.Error("a status that says nothing new was written")
	}
}

func TestFrees(t *testing.T) {
	c := New(Config{})
	running, ended := pod("p", "1", corev1.PodRunning), pod("p", "1", corev1.PodFailed)
	for _, tt := range []struct {
		name string
		ev   client.Event
		want bool
	}{
		{"added", client.Event{Type: client.Added, Object: running}, false},
		{"deleted", client.Event{Type: client.Deleted, Object: running}, true},
		{"status of a pod", client.Event{Type: client.Modified, Old: running, Object: running.DeepCopy()}, false},
		{"pod ended", client.Event{Type: client.Modified, Old: running, Object: ended}, true},
		{"config map", client.Event{Type: client.Modified, Object: &corev1.ConfigMap{}}, false},
		{"service", client.Event{Type: client.Modified, Object: &corev1.Service{}}, true},
	} {
		if got := c.frees(tt.ev); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
