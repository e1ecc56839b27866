package endpoints

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func pod(i int, ready corev1.ConditionStatus) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("p", i), UID: types.UID(fmt.Sprint("u", i))},
		Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}}}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: fmt.Sprintf("10.244.%d.%d", i/250, i%250), Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
	}
}

func service() *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: map[string]string{"team": "a"}}, Spec: corev1.ServiceSpec{
		ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("web"), Protocol: corev1.ProtocolTCP}}}}
}

func TestPlan(t *testing.T) {
	ended, ending, other := pod(3, corev1.ConditionTrue), pod(4, corev1.ConditionTrue), pod(5, corev1.ConditionTrue)
	ended.Status.Phase = corev1.PodFailed
	ending.DeletionTimestamp = &metav1.Time{}
	other.Spec.Containers[0].Ports[0].ContainerPort = 9090
	e := plan(service(), []*corev1.Pod{pod(2, corev1.ConditionTrue), pod(1, corev1.ConditionFalse), ended, ending, other}, nil)
	got := ""
	for _, s := range e.Subsets {
		for _, a := range s.Addresses {
			got += fmt.Sprintf("%s:%d ", a.IP, s.Ports[0].Port)
		}
		for _, a := range s.NotReadyAddresses {
			got += fmt.Sprintf("(%s:%d) ", a.IP, s.Ports[0].Port)
		}
	}
	if got != "10.244.0.2:8080 (10.244.0.1:8080) 10.244.0.5:9090 " {
		t.Errorf("endpoints: %s", got)
	}
	if _, headless := e.Labels[corev1.IsHeadlessService]; !headless || e.Labels["team"] != "a" || e.Labels[labelManagedBy] != managedBy {
		t.Errorf("labels: %v", e.Labels)
	}
	all := service()
	all.Spec.PublishNotReadyAddresses = true
	if e := plan(all, []*corev1.Pod{pod(1, corev1.ConditionFalse), ending}, nil); len(e.Subsets[0].Addresses) != 2 {
		t.Errorf("published though not ready: %+v", e.Subsets)
	}
}

// One object holds a thousand addresses; ready ones come first.
func TestLimit(t *testing.T) {
	var pods []*corev1.Pod
	for i := range 1500 {
		ready := corev1.ConditionTrue
		if i%3 != 0 {
			ready = corev1.ConditionFalse
		}
		pods = append(pods, pod(i, ready))
	}
	e := plan(service(), pods, nil)
	if len(e.Subsets[0].Addresses) != 500 || len(e.Subsets[0].NotReadyAddresses) != 500 || e.Annotations[corev1.EndpointsOverCapacity] != "truncated" {
		t.Errorf("%d and %d addresses, %v", len(e.Subsets[0].Addresses), len(e.Subsets[0].NotReadyAddresses), e.Annotations)
	}
	e = plan(service(), pods[:3], e)
	if e.Annotations[corev1.EndpointsOverCapacity] != "" {
		t.Error("still marked as truncated")
	}
}
