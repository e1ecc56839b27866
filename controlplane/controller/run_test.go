package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// spy is a reconciler that notes when it was called and answers by a script.
type spy struct {
	mu     sync.Mutex
	begin  time.Time
	calls  []call
	active map[schema.Key]int
	double bool
	answer func(n int, key schema.Key) (Result, error)
	takes  time.Duration
}

type call struct {
	key schema.Key
	at  time.Duration
}

func (s *spy) Reconcile(ctx context.Context, key schema.Key) (Result, error) {
	s.mu.Lock()
	s.calls = append(s.calls, call{key, time.Since(s.begin)})
	n := len(s.calls)
	if s.active == nil {
		s.active = map[schema.Key]int{}
	}
	s.active[key]++
	s.double = s.double || s.active[key] > 1
	s.mu.Unlock()
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
	}
	s.mu.Lock()
	s.active[key]--
	s.mu.Unlock()
	if s.answer == nil {
		return Result{}, nil
	}
	return s.answer(n, key)
}

func (s *spy) seen() []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

var maps = schema.ResourceFor[*corev1.ConfigMap]()

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

// run starts a controller of ConfigMaps over a Fake in a synctest bubble.
func run(t *testing.T, s *spy, cfg Config, objects ...schema.Object) (*client.Fake, *Controller) {
	f := client.NewFake(objects...)
	s.begin = time.Now()
	cfg.Name, cfg.Reconciler, cfg.Cache = "test", s, f.Cache()
	if cfg.Watches == nil {
		cfg.Watches = []Watch{{Resource: maps}}
	}
	c := New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	synctest.Wait()
	return f, c
}

// A failing key is tried again after 5 ms, 10 ms, 20 ms, ... up to 1000 s, and
// after a success begins anew.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &spy{answer: func(n int, _ schema.Key) (Result, error) {
			if n == 26 {
				return Result{}, nil
			}
			return Result{}, errors.New("no")
		}}
		_, c := run(t, s, Config{Look: -1}, configMap("a"))
		time.Sleep(3 * time.Hour)
		calls := s.seen()
		if len(calls) != 26 {
			t.Fatalf("%d calls", len(calls))
		}
		for i := 1; i < len(calls); i++ {
			want := min(5*time.Millisecond<<(i-1), 1000*time.Second)
			if got := calls[i].at - calls[i-1].at; got != want {
				t.Errorf("pause %d: %v, want %v", i, got, want)
			}
		}
		c.Enqueue(schema.Key{Namespace: "default", Name: "a"})
		time.Sleep(6 * time.Millisecond)
		if n := len(s.seen()); n != 28 {
			t.Errorf("%d calls after the success, want the next failure's retry after 5 ms", n)
		}
	})
}

func TestRequeueAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &spy{answer: func(int, schema.Key) (Result, error) { return Result{RequeueAfter: time.Minute}, nil }}
		run(t, s, Config{}, configMap("a"))
		time.Sleep(10*time.Minute + time.Second)
		if n := len(s.seen()); n != 11 {
			t.Errorf("%d calls in ten minutes", n)
		}
	})
}

// Of an object that changes while its key is worked on, one more call sees all
// changes; no key is ever in two hands.
func TestOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &spy{takes: time.Second}
		f, _ := run(t, s, Config{Workers: 4}, configMap("a"), configMap("b"))
		for i := range 50 {
			o := configMap("a")
			o.Data = map[string]string{"i": fmt.Sprint(i)}
			if _, err := client.Update(t.Context(), f, o, client.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if s.double {
			t.Error("one key was reconciled twice at a time")
		}
		if n := len(s.seen()); n != 3 {
			t.Errorf("%d calls, want one of b and two of a", n)
		}
	})
}

// A key that comes often does not starve the others.
func TestFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &spy{takes: time.Second}
		var c *Controller
		s.answer = func(_ int, key schema.Key) (Result, error) {
			if key.Name == "a" {
				c.Enqueue(key)
			}
			return Result{}, nil
		}
		_, c = run(t, s, Config{})
		for _, name := range []string{"a", "b", "c"} {
			c.Enqueue(schema.Key{Name: name})
		}
		time.Sleep(3500 * time.Millisecond)
		got := ""
		for _, c := range s.seen() {
			got += c.key.Name
		}
		if got != "abca" {
			t.Errorf("order %q", got)
		}
	})
}

func TestPanicIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		s := &spy{answer: func(n int, _ schema.Key) (Result, error) {
			if n == 1 {
				panic("bad object")
			}
			return Result{}, nil
		}}
		run(t, s, Config{Metrics: NewMetrics(reg)}, configMap("a"))
		time.Sleep(time.Second)
		if n := len(s.seen()); n != 2 {
			t.Errorf("%d calls", n)
		}
		for name, want := range map[string]float64{
			"controller_runtime_reconcile_panics_total": 1, "controller_runtime_reconcile_errors_total": 1,
			"workqueue_adds_total": 2, "workqueue_retries_total": 1, "workqueue_depth": 0, "workqueue_unfinished_work_seconds": 0,
		} {
			if got := value(t, reg, name); got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
	})
}

// value returns a counter or gauge that has one series.
func value(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() == name {
			m := f.GetMetric()[0]
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	t.Errorf("no metric %s", name)
	return -1
}

func TestTerminalErrorIsNotRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &spy{answer: func(int, schema.Key) (Result, error) { return Result{}, Terminal(errors.New("never")) }}
		f, _ := run(t, s, Config{Look: -1}, configMap("a"))
		time.Sleep(time.Hour)
		if n := len(s.seen()); n != 1 {
			t.Errorf("%d calls", n)
		}
		o := configMap("a")
		o.Data = map[string]string{"x": "y"}
		if _, err := client.Update(t.Context(), f, o, client.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if n := len(s.seen()); n != 2 {
			t.Errorf("%d calls after an event", n)
		}
	})
}

func TestWatchThatCannotBeSubscribedEndsTheController(t *testing.T) {
	empty := client.NewCache(client.CacheConfig{Client: client.NewFake()})
	c := New(Config{Name: "test", Reconciler: &spy{}, Cache: empty, Watches: []Watch{{Resource: maps}}})
	if err := c.Run(t.Context()); !errors.Is(err, client.ErrNotCached) {
		t.Errorf("run: %v", err)
	}
}

func TestErrTerminal(t *testing.T) {
	cause := errors.New("cause")
	err := fmt.Errorf("context: %w", Terminal(cause))
	if !errors.Is(err, ErrTerminal) || !errors.Is(err, cause) || Terminal(nil) != nil {
		t.Errorf("terminal error: %v", err)
	}
}
