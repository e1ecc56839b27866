package cluster

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// TestPodRange: a node waits for its range, at the cost of nothing, and knows it
// when it starts again without a server.
func TestPodRange(t *testing.T) {
	cfg := Config{DataDir: t.TempDir(), NodeName: "n"}
	node := func(name, cidr string) *corev1.Node {
		return &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDR: cidr}}
	}
	synctest.Test(t, func(t *testing.T) {
		fake := client.NewFake(node("other", "10.244.7.0/24"), node("n", ""))
		got := make(chan netip.Prefix, 1)
		go func() {
			cidr, err := newLateNetwork(cfg, fake.Cache()).podCIDR(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- cidr
		}()
		synctest.Wait()
		select {
		case cidr := <-got:
			t.Fatalf("%v, and none was given", cidr)
		default:
		}
		have, err := client.Get[*corev1.Node](t.Context(), fake, schema.Key{Name: "n"})
		if err != nil {
			t.Fatal(err)
		}
		have = have.DeepCopy()
		have.Spec.PodCIDR = "10.244.3.0/24"
		if _, err := client.Update(t.Context(), fake, have, client.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		if cidr := <-got; cidr.String() != "10.244.3.0/24" {
			t.Error(cidr)
		}
	})
	if cidr, err := newLateNetwork(cfg, nil).podCIDR(t.Context()); err != nil || cidr.String() != "10.244.3.0/24" {
		t.Errorf("after a restart: %v, %v", cidr, err)
	}
	cfg.DataDir = t.TempDir()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if cidr, err := newLateNetwork(cfg, client.NewFake().Cache()).podCIDR(ended); err != nil || cidr.IsValid() {
		t.Errorf("it ends before: %v, %v", cidr, err)
	}
}
