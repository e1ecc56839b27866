package source

import (
	"context"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var kind = corev1.SchemeGroupVersion.WithKind("ConfigMap")

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
}

// What is built is built once for each change, and never from before one.
func TestSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, builds := client.NewFake(configMap("a")), 0
		s := New(Config[int]{Cache: f.Cache(), Kinds: []kschema.GroupVersionKind{kind, {Group: "none", Version: "v1", Kind: "None"}}, Build: func(c client.Cache) int {
			builds++
			return len(Objects[*corev1.ConfigMap](c, kind))
		}})
		// Before Run nobody knows: every Load looks.
		if s.Empty() || s.Load() != 1 || s.Load() != 1 || builds != 2 {
			t.Fatalf("before Run: empty %v, %d builds", s.Empty(), builds)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		synctest.Wait()
		builds = 0
		if s.Empty() || s.Load() != 1 || s.Load() != 1 || builds != 1 {
			t.Errorf("nothing changes: empty %v, %d builds", s.Empty(), builds)
		}
		if _, err := f.Create(ctx, schema.ResourceFor[*corev1.ConfigMap](), configMap("b"), client.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if first, again := s.Load(), s.Load(); first != 2 || again != 2 || builds != 2 {
			t.Errorf("after a change: %d and %d, %d builds", first, again, builds)
		}
		for _, name := range []string{"a", "b"} {
			if err := f.Delete(ctx, schema.ResourceFor[*corev1.ConfigMap](), schema.Key{Namespace: "shop", Name: name}, client.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if !s.Empty() || s.Load() != 0 {
			t.Errorf("all is gone: empty %v, %d", s.Empty(), s.Load())
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
