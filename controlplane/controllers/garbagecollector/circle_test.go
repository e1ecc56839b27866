package garbagecollector

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// Objects that own each other in a circle do not wait for each other for ever.
func TestCircle(t *testing.T) {
	for _, p := range []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationBackground} {
		left, _ := collect(t, []schema.Object{owned("a", true, "c"), owned("b", true, "a"), owned("c", true, "b")}, func(ctx context.Context, f *client.Fake) {
			remove(t, ctx, f, "a", p)
		})
		if len(left) > 0 {
			t.Errorf("%s: left: %v", p, left)
		}
	}
}

// An object that lost the flag that holds its owner frees the owner.
func TestOwnerIsFreed(t *testing.T) {
	held := owned("b", true, "a")
	held.Finalizers = []string{"example.com/held"}
	left, _ := collect(t, []schema.Object{owned("a", false), held}, func(ctx context.Context, f *client.Fake) {
		remove(t, ctx, f, "a", metav1.DeletePropagationForeground)
		free := held.DeepCopy()
		no := false
		free.OwnerReferences[0].BlockOwnerDeletion = &no
		if _, err := client.Update(ctx, f, free, client.WriteOptions{}); err != nil {
			t.Error(err)
		}
	})
	if len(left) != 1 || left[0] != "b" {
		t.Errorf("left: %v", left)
	}
}
