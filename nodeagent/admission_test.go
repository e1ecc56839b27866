package nodeagent

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/nodeagent/runtime/fake"
)

// The agent asks the server for what a pod refers to: the handler of its runtime
// class, and whether its namespace may reach metadata services.
func TestAdmissionAsksTheServer(t *testing.T) {
	api := client.NewFake()
	api.Put(&nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "plain"}, Handler: "runc"})
	api.Put(&nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "safe"}, Handler: "kata"})
	api.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "cloud", Annotations: map[string]string{AnnotationMetadata: "allow"}}})
	api.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	a := New(Config{NodeName: "n1", NodeIP: "127.0.0.1", Client: api, Cache: api.Cache(), Runtime: fake.New(fake.Config{}), Network: newFakeNetwork(1), simulated: true})
	for class, refused := range map[string]bool{"": false, "plain": false, "safe": true, "none": true} {
		p := testPod("a", func(p *corev1.Pod) { p.Spec.RuntimeClassName = &class })
		got, err := a.admit(t.Context(), p)
		if err != nil || (got != nil) != refused {
			t.Errorf("runtime class %q: %+v %v", class, got, err)
		}
	}
	for namespace, want := range map[string]string{"cloud": "true", "shop": "false", "gone": "unknown"} {
		got := "unknown"
		if may := a.metadata(context.Background(), namespace); may != nil {
			got = map[bool]string{true: "true", false: "false"}[*may]
		}
		if got != want {
			t.Errorf("namespace %s: %s, want %s", namespace, got, want)
		}
	}
}
