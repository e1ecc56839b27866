package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/writ-os/writ/ci/freeport"
)

// Every answer that a server gives while it is stopped is true: what was
// acknowledged is stored, what was refused is not, and nobody is told of raft.
func TestStopUnderWrites(t *testing.T) {
	cfg := Config{DataDir: filepath.Join(t.TempDir(), "data"), Listen: freeport.Local(t), NodeName: "n", Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	_, dir, admin := prepared(t, "https://"+cfg.Listen)
	cfg.Authority = dir
	admin.QPS = -1
	kube, err := kubernetes.NewForConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	stored, refused := map[string]bool{}, map[string]error{}
	for round := range 4 {
		p := NewControlPlane(cfg)
		ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		select {
		case <-p.Ready():
		case err := <-done:
			t.Fatal(err)
		}
		if round > 0 {
			all, err := kube.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			have := map[string]bool{}
			for _, m := range all.Items {
				have[m.Name] = true
			}
			for name := range stored {
				if !have[name] {
					t.Errorf("%s was acknowledged and is not there", name)
				}
			}
			for name, err := range refused {
				if have[name] {
					t.Errorf("%s is there, and its writer was told: %v", name, err)
				}
			}
		}
		var mu sync.Mutex
		var wg sync.WaitGroup
		written := make(chan struct{}, 1<<16)
		for w := range 16 {
			wg.Go(func() {
				for i := 0; ; i++ {
					m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c-%d-%d-%d", round, w, i)}}
					_, err := kube.CoreV1().ConfigMaps("default").Create(context.WithoutCancel(ctx), m, metav1.CreateOptions{})
					var answer *apierrors.StatusError
					mu.Lock()
					switch {
					case err == nil:
						stored[m.Name] = true
						written <- struct{}{}
					case errors.As(err, &answer) && answer.ErrStatus.Code == 503:
						refused[m.Name] = err
					case errors.As(err, &answer) && answer.ErrStatus.Code == 500:
						t.Errorf("an answer while it stops: %v", err)
					}
					mu.Unlock()
					if err != nil {
						return
					}
				}
			})
		}
		for range 50 * (round + 1) {
			<-written
		}
		began := time.Now()
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		t.Logf("stopped after %v", time.Since(began))
		wg.Wait()
	}
}

// The first error of a part ends the layers, whichever it is of, and is the one
// that is told; they end from the top.
func TestLayers(t *testing.T) {
	failed := errors.New("failed")
	for _, fails := range []string{"front", "loops", "store", ""} {
		ctx, cancel := context.WithCancel(t.Context())
		l := newLayers(ctx)
		var mu sync.Mutex
		var order []string
		for name, layer := range map[string]layer{"front": l.front, "loops": l.loops, "store": l.store} {
			layer.Go(func() error {
				if name == fails {
					return failed
				}
				<-layer.ctx.Done()
				mu.Lock()
				defer mu.Unlock()
				order = append(order, name)
				return nil
			})
		}
		if fails == "" {
			cancel()
		}
		err := l.wait()
		cancel()
		if fails == "" && err != nil || fails != "" && !errors.Is(err, failed) {
			t.Errorf("%q fails: %v", fails, err)
		}
		if fails == "" && fmt.Sprint(order) != "[front loops store]" {
			t.Errorf("ended in the order %v", order)
		}
	}
}

// A part that was still waiting for something when the server was told to end says
// so: the server has ended well. One that says so by itself has failed.
func TestToldToEndIsNoError(t *testing.T) {
	for _, told := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		l := newLayers(ctx)
		l.front.Go(func() error { <-l.front.ctx.Done(); return l.front.ctx.Err() })
		l.loops.Go(func() error {
			if told {
				<-l.loops.ctx.Done()
			}
			return fmt.Errorf("wait for the cache: %w", context.Canceled)
		})
		l.store.Go(func() error { <-l.store.ctx.Done(); return nil })
		if told {
			cancel()
		}
		if err := l.wait(); (err == nil) != told {
			t.Errorf("told to end: %v: %v", told, err)
		}
		cancel()
	}
}
