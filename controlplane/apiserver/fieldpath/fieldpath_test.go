package fieldpath

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestText(t *testing.T) {
	half := intstr.FromString("50%")
	three := int32(3)
	for _, tt := range []struct {
		o    any
		path string
		want string
	}{
		{&corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}}, "spec.nodeName", "n"},
		{&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}}, "status.phase", "Running"},
		{&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, "metadata.name", "p"},
		{&corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod"}}, "kind", "Pod"},
		{&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a.b/c": "d"}}}, "metadata.labels.a.b/c", "d"},
		{&corev1.Pod{}, "metadata.labels.a", ""},
		{&corev1.Pod{Spec: corev1.PodSpec{HostNetwork: true}}, "spec.hostNetwork", "true"},
		{&corev1.Pod{}, "spec.securityContext.runAsUser", ""},
		{&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &three}}, "spec.replicas", "3"},
		{&appsv1.Deployment{}, "spec.replicas", ""},
		{&policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &half}}, "spec.minAvailable", "50%"},
		{&corev1.Volume{VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}}}, "hostPath.path", "/x"},
	} {
		p, err := Compile(tt.o, tt.path)
		if err != nil {
			t.Errorf("%s: %v", tt.path, err)
			continue
		}
		if got := p.Text(tt.o); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.path, got, tt.want)
		}
	}
	for _, bad := range []string{"spec.nothing", "spec.nodeName.more", "nothing"} {
		if _, err := Compile(&corev1.Pod{}, bad); err == nil {
			t.Errorf("%s compiles", bad)
		}
	}
}

func BenchmarkText(b *testing.B) {
	o := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}}
	p, err := Compile(o, "spec.nodeName")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if p.Text(o) != "n" {
			b.Fatal("wrong")
		}
	}
}
