package registry

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/controlplane/store/killtest"
	"github.com/writ-os/writ/schema"
)

var (
	configMaps = schema.ResourceFor[*corev1.ConfigMap]()
	pods       = schema.ResourceFor[*corev1.Pod]()
	services   = schema.ResourceFor[*corev1.Service]()
	namespaces = schema.ResourceFor[*corev1.Namespace]()
)

func TestMain(m *testing.M) {
	if child := killtest.Child(); child != nil {
		transactChild(child)
		return
	}
	goleak.VerifyTestMain(m)
}

// as returns a context of a user.
func as(name string, groups ...string) context.Context {
	return request.WithUser(context.Background(), &user.DefaultInfo{Name: name, Groups: groups})
}

var person = as("jane")

// open runs a registry over a store in dir until the test ends or stop is
// called.
func open(t testing.TB, dir string, chain ...Admission) (g *Registry, stop func()) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	s := store.New(store.Config{Dir: dir, Log: log, Tick: 10 * time.Millisecond})
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
	return New(Config{Store: s, Log: log, Admission: chain}), stop
}

func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Data:       map[string]string{"v": value},
	}
}

func key(name string) schema.Key { return schema.Key{Namespace: "default", Name: name} }
