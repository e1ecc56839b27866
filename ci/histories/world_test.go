package histories

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/writ-os/writ/controlplane/admission"
	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controllers"
	"github.com/writ-os/writ/controlplane/crd"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/reconciler"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// world is a cluster without nodes: everything that decides about objects is
// the real thing.
type world struct {
	t       testing.TB
	reg     *registry.Registry
	catalog schema.Live
	src     *memSource
	r       *reconciler.Reconciler
	ctx     context.Context
	halt    func() // the reconciler
	stop    func()
	log     *slog.Logger

	mu       sync.Mutex
	wrong    []error
	happened map[uint64]map[string]happening // by revision of the store
}

// fail notes what must not be; the history ends at its next command.
func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Errorf(format, args...))
}

func (w *world) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(w.wrong...)
}

// scratch is where stores lie: in memory where that can be, for nothing here
// is about a machine that dies.
func scratch(t testing.TB) string {
	if dir, err := os.MkdirTemp("/dev/shm", "writ-histories-"); err == nil {
		t.Cleanup(func() { os.RemoveAll(dir) })
		return dir
	}
	return t.TempDir()
}

func newWorld(t testing.TB, dir string) *world {
	w := &world{t: t, happened: map[uint64]map[string]happening{}, src: newMemSource(), log: slog.New(slog.DiscardHandler)}
	if testing.Verbose() && os.Getenv("WRIT_LOG") != "" {
		w.log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	st := store.New(store.Config{Dir: dir, Log: w.log, Tick: time.Second})
	w.reg = registry.New(registry.Config{Store: st, Catalog: &w.catalog, Log: w.log})
	adm := admission.New(admission.Config{Cache: w.reg.Cache(), Catalog: &w.catalog, Log: w.log})
	w.reg.SetAdmission(append([]registry.Admission{crd.Admission{}}, adm.Plugins()...)...)
	server := w.as(identity.APIServer)
	pub := crd.New(crd.Config{Client: server, Cache: w.reg.Cache(), Store: st, Catalog: &w.catalog, Log: w.log})
	ctx, cancel := context.WithCancel(context.Background())
	w.ctx = ctx
	var wg sync.WaitGroup
	run := func(what string, fn func(context.Context) error) {
		wg.Go(func() {
			if err := fn(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, context.Canceled) {
				w.fail("%s ended: %v", what, err)
			}
		})
	}
	run("store", st.Run)
	<-st.Ready()
	run("admission", adm.Run)
	run("definitions", pub.Run)
	synctest.Wait()
	for _, ns := range []string{"default", "kube-system"} {
		w.must(client.Create(ctx, server, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, client.WriteOptions{}))
	}
	cm := w.as(user.KubeControllerManager)
	run("controllers", func(ctx context.Context) error {
		return controllers.Run(ctx, controllers.Config{Client: cm, Cache: w.reg.Cache(), Catalog: &w.catalog, CA: []byte("ca"), Log: w.log})
	})
	for _, r := range w.kinds() {
		if r.Kind != "Event" && r.Kind != "Lease" {
			w.note(r)
		}
	}
	w.stop = func() { w.halt(); cancel(); wg.Wait() }
	w.begin()
	return w
}

// as is a client of a part of the server.
func (w *world) as(name string) *client.LocalClient {
	return client.Local(w.reg, identity.System(name), name)
}

func (w *world) must(_ any, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// begin starts the reconciler.
func (w *world) begin() {
	ctx, cancel := context.WithCancel(w.ctx)
	w.r = reconciler.New(reconciler.Config{Client: w.as(identity.Reconciler), Source: w.src, Catalog: &w.catalog,
		Spec: v1alpha1.RepositorySpec{URL: "builtin", Branch: "main"}, Log: w.log})
	done := make(chan error, 1)
	go func() { done <- w.r.Run(ctx) }()
	w.halt = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.fail("reconciler ended: %v", err)
		}
	})
	synctest.Wait()
}
