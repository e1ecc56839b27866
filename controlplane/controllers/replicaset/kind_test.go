package replicaset

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller/controllertest"
	"github.com/writ-os/writ/schema"
)

func replicationController(replicas int32) *corev1.ReplicationController {
	l := map[string]string{"app": "web"}
	return &corev1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "rc-uid", Generation: 3},
		Spec: corev1.ReplicationControllerSpec{Replicas: &replicas, Selector: l,
			Template: &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: l}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}},
	}
}

// A ReplicationController creates, counts, adopts and releases its pods.
func TestReplicationController(t *testing.T) {
	orphan := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orphan", Labels: map[string]string{"app": "web"}}}
	f := client.NewFake(replicationController(3), orphan)
	c := NewReplicationController(controllertest.Tools(f))
	for range 3 {
		reconcile(t, c)
	}
	all := pods(t, f)
	if len(all) != 3 {
		t.Fatalf("%d pods, want 3", len(all))
	}
	for _, p := range all {
		ref := metav1.GetControllerOf(p)
		if ref == nil || ref.Kind != "ReplicationController" || ref.APIVersion != "v1" || ref.UID != "rc-uid" {
			t.Errorf("owner of %s: %+v", p.Name, ref)
		}
	}
	rc, _ := client.Cached[*corev1.ReplicationController](f.Cache(), key)
	if rc.Status.Replicas != 3 || rc.Status.FullyLabeledReplicas != 3 || rc.Status.ObservedGeneration != 3 {
		t.Errorf("status %+v", rc.Status)
	}
	before := rc.ResourceVersion
	reconcile(t, c)
	if rc, _ = client.Cached[*corev1.ReplicationController](f.Cache(), key); rc.ResourceVersion != before {
		t.Error("a status that says nothing new was written")
	}
	lost := all[0].DeepCopy()
	lost.Labels = map[string]string{"app": "other"}
	if _, err := client.Update(t.Context(), f, lost, client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	reconcile(t, c)
	if p, _ := client.Get[*corev1.Pod](t.Context(), f, schema.KeyOf(lost)); metav1.GetControllerOf(p) != nil {
		t.Errorf("the pod that no longer matches is still owned")
	}
	if n := len(pods(t, f)); n != 4 {
		t.Errorf("%d pods, want 4", n)
	}
}
