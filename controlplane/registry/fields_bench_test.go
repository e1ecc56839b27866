package registry

import (
	"context"
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/defaults"
)

// BenchmarkOwners is what it costs to record who owns the fields that a kubelet
// has changed in the status of a pod.
func BenchmarkOwners(b *testing.B) {
	f := newFieldManagers(slog.New(slog.DiscardHandler), nil)
	r := schema.ResourceFor[*corev1.Pod]()
	old := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "u", Labels: map[string]string{"app": "web"}},
		Spec:       deployment("p").Spec.Template.Spec,
	}
	defaults.Apply(old)
	if err := f.update(b.Context(), r, "", nil, old, "controller"); err != nil {
		b.Fatal(err)
	}
	mine := old.DeepCopy()
	running(mine, 1)
	if err := f.update(b.Context(), r, "status", old, mine, "kubelet"); err != nil {
		b.Fatal(err)
	}
	next := mine.DeepCopy()
	running(next, 2)
	for name, update := range map[string]func(context.Context, *schema.Resource, string, schema.Object, schema.Object, string) error{
		"asked": f.record, "remembered": f.update,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := update(b.Context(), r, "status", mine, next, "kubelet"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func running(p *corev1.Pod, n int) {
	at := metav1.NewTime(time.Unix(int64(n), 0))
	p.Status.Phase = corev1.PodRunning
	p.Status.PodIP = "10.0.0.1"
	p.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: at},
		{Type: corev1.ContainersReady, Status: corev1.ConditionTrue, LastTransitionTime: at},
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "web", Ready: true, RestartCount: int32(n), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}},
	}}
}
