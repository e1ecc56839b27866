package reload

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestFollow goes through the life of two files that belong together.
func TestFollow(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	write(t, a, "1")
	write(t, b, "x")
	synctest.Test(t, func(t *testing.T) {
		var (
			mu    sync.Mutex // guards the three below it
			have  string
			calls int
			down  = true
			log   bytes.Buffer
		)
		m := NewMetrics("me")
		reg := prometheus.NewRegistry()
		reg.MustRegister(m)
		w := New(Config{Name: "test", Files: []string{a, b}, Metrics: m, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Take: func(_ context.Context, data [][]byte) error {
				mu.Lock()
				defer mu.Unlock()
				calls++
				switch s := string(data[0]) + string(data[1]); {
				case strings.Contains(s, "bad"):
					return errors.New("it is bad")
				case strings.Contains(s, "far") && down:
					return Later(errors.New("nobody answers"))
				default:
					have = s
				}
				return nil
			}})
		if err := w.Load(t.Context()); err != nil || have != "1x" {
			t.Fatalf("%q, %v", have, err)
		}
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		step := func(want string, wantCalls int) {
			t.Helper()
			time.Sleep(3 * Every) // of the bubble's clock
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if have != want || calls != wantCalls {
				t.Errorf("have %q after %d calls, want %q after %d", have, calls, want, wantCalls)
			}
		}
		step("1x", 1)
		write(t, a, "2")
		step("2x", 2)
		write(t, b, "bad")
		step("2x", 3) // not again before it changes
		if err := os.Remove(b); err != nil {
			t.Fatal(err)
		}
		step("2x", 3)
		write(t, b, "far")
		step("2x", 6) // at each round
		mu.Lock()
		down = false
		mu.Unlock()
		step("2far", 7)
		if err := os.Rename(b, b+"1"); err != nil {
			t.Fatal(err)
		}
		write(t, b+"2", "y")
		if err := os.Symlink(b+"2", b); err != nil {
			t.Fatal(err)
		}
		step("2y", 8)
		write(t, a, strings.Repeat("x", maxFile+1))
		step("2y", 8)
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
		for text, want := range map[string]int{"file reloaded": 3, "it is bad": 1, "no such file": 1, "nobody answers": 1, "larger than": 1} {
			if n := strings.Count(log.String(), text); n != want {
				t.Errorf("%q is in the log %d times, want %d:\n%s", text, n, want, log.String())
			}
		}
		id := hash([]byte("me"))
		want := `
# HELP apiserver_test_controller_automatic_reloads_total Total number of automatic reloads split by status and apiserver identity.
# TYPE apiserver_test_controller_automatic_reloads_total counter
apiserver_test_controller_automatic_reloads_total{apiserver_id_hash="` + id + `",status="failure"} 10
apiserver_test_controller_automatic_reloads_total{apiserver_id_hash="` + id + `",status="success"} 3
# HELP apiserver_test_controller_last_config_info Information about the last applied configuration with hash as label, split by apiserver identity.
# TYPE apiserver_test_controller_last_config_info gauge
apiserver_test_controller_last_config_info{apiserver_id_hash="` + id + `",hash="` + hash([]byte("2"), []byte("y")) + `"} 1
`
		if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "apiserver_test_controller_automatic_reloads_total", "apiserver_test_controller_last_config_info"); err != nil {
			t.Error(err)
		}
	})
}

func TestLoad(t *testing.T) {
	w := New(Config{Files: []string{filepath.Join(t.TempDir(), "none")}, Take: func(context.Context, [][]byte) error { return nil }})
	if err := w.Load(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	path := filepath.Join(t.TempDir(), "bad")
	write(t, path, "x")
	bad := errors.New("bad")
	if err := New(Config{Files: []string{path}, Take: func(context.Context, [][]byte) error { return bad }}).Load(t.Context()); !errors.Is(err, bad) {
		t.Errorf("got %v", err)
	}
	if Later(nil) != nil || !errors.Is(Later(bad), bad) {
		t.Error("Later hides what it marks")
	}
}
