package clients

import (
	"bytes"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/features"
	clientfeatures "k8s.io/client-go/features/testing"
	"k8s.io/client-go/kubernetes"

	"github.com/writ-os/writ/cmd/writ/cluster"
)

// TestCBOR: client-go speaks CBOR, bytes and numbers and all, where the gate
// is on.
func TestCBOR(t *testing.T) {
	clientfeatures.SetFeatureDuringTest(t, features.ClientsAllowCBOR, true)
	clientfeatures.SetFeatureDuringTest(t, features.ClientsPreferCBOR, true)
	cfg := startWith(t, cluster.API{FeatureGates: map[string]bool{cluster.CBORGate: true}})
	cfg.ContentType, cfg.AcceptContentTypes = "application/cbor", "application/cbor"
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, secrets := t.Context(), c.CoreV1().Secrets("default")
	w, err := secrets.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	want := []byte{0, 1, 2, 0xff, 'x'}
	made, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"k": want}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(made.Data["k"], want) || made.CreationTimestamp.IsZero() {
		t.Errorf("made %v", made)
	}
	select {
	case ev := <-w.ResultChan():
		if s, ok := ev.Object.(*corev1.Secret); !ok || !bytes.Equal(s.Data["k"], want) {
			t.Errorf("event %v", ev)
		}
	case <-time.After(10 * time.Second):
		t.Error("no event")
	}
	if _, err := secrets.Apply(ctx, corev1ac.Secret("s", "default").WithLabels(map[string]string{"a": "b"}), metav1.ApplyOptions{FieldManager: "me"}); err != nil {
		t.Error(err)
	}
	if _, err := secrets.Patch(ctx, "s", types.MergePatchType, []byte(`{"metadata":{"labels":{"c":"d"}}}`), metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
	list, err := secrets.List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].Labels["a"] != "b" || list.Items[0].Labels["c"] != "d" {
		t.Errorf("%v %v", list, err)
	}
}
