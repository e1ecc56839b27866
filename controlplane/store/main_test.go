package store

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/store/killtest"
	"github.com/writ-os/writ/schema"
)

var (
	configMaps = schema.ResourceFor[*corev1.ConfigMap]()
	pods       = schema.ResourceFor[*corev1.Pod]()
	namespaces = schema.ResourceFor[*corev1.Namespace]()
)

func TestMain(m *testing.M) {
	if child := killtest.Child(); child != nil {
		children[child.Name](child)
		return
	}
	// etcd leaves these two behind when it cannot read its data.
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("go.etcd.io/etcd/server/v3/storage/backend.(*backend).run"),
		goleak.IgnoreTopFunction("go.etcd.io/etcd/server/v3/storage/wal.(*filePipeline).run"))
}

// open runs a store until the test ends or stop is called.
func open(t testing.TB, cfg Config) (s *Store, stop func()) {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	if cfg.Tick == 0 {
		cfg.Tick = 10 * time.Millisecond
	}
	s = New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	select {
	case <-s.Ready():
	case err := <-done:
		t.Fatalf("store ended: %v", err)
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("store ended: %v", err)
		}
	}
	t.Cleanup(stop)
	return s, stop
}

func configMap(ns, name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Data:       map[string]string{"v": value},
	}
}

func create(o schema.Object) Write {
	return Write{Resource: schema.ResourceOf(o), Key: schema.KeyOf(o), Object: o}
}

func commit(t testing.TB, s *Store, w ...Write) []*Item {
	t.Helper()
	items, err := s.Txn(context.Background(), w)
	if err != nil {
		t.Fatalf("Txn: %v", err)
	}
	return items
}

func manyConfigMaps(n int) []Write {
	w := make([]Write, n)
	for i := range w {
		w[i] = create(configMap("default", fmt.Sprintf("cm-%05d", i), "x"))
	}
	return w
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}
}

func pod(ns, name, node, owner string) *corev1.Pod {
	yes := true
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ns, Name: name, Labels: map[string]string{"app": "web"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: types.UID(owner), Controller: &yes}},
		},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "registry.example.com/app:v1"}}},
	}
}

// logLevel of members that are several: what etcd says of the others when they
// are away is not worth a line. WRIT_STORE_LOG=1 shows it.
var logLevel = func() slog.Level {
	if os.Getenv("WRIT_STORE_LOG") != "" {
		return slog.LevelInfo
	}
	return slog.LevelError + 1
}()
