// Package controllertest is what the tests of controllers share: a reconciler
// at work over a client.Fake.
//
// It watches nothing and owns nothing. It promises that no reconciler runs on
// when its test is over, and that a test fails whose reconciler stopped with an
// error.
package controllertest

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/schema"
)

// Reconciler is one that says what wakes it.
type Reconciler interface {
	controller.Reconciler
	Watches() []controller.Watch
}

// Tools are those of a reconciler over a server in this process.
func Tools(b client.Backend) controller.Tools {
	return controller.Tools{Client: controller.Noting(b), Cache: b.Cache()}
}

// Start runs a reconciler until stop is called, or the test is over.
func Start(t testing.TB, b client.Backend, r Reconciler, workers int) (stop func()) {
	t.Helper()
	return Run(t, controller.Config{Reconciler: r, Watches: r.Watches(), Cache: b.Cache(), Workers: workers})
}

// Run is Start for a reconciler with more than that.
func Run(t testing.TB, cfg controller.Config) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- controller.New(cfg).Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// Bubble has a reconciler at work on some objects, in a bubble of its own; do
// is called when it has done what it found to do.
func Bubble[R Reconciler](t *testing.T, reconciler func(controller.Tools) R, do func(ctx context.Context, f *client.Fake), objects ...schema.Object) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := client.NewFake(objects...)
		Start(t, f, reconciler(Tools(f)), 1)
		synctest.Wait()
		do(t.Context(), f)
	})
}
