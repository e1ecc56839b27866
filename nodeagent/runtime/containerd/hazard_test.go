package containerd

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types/task"
	ctrd "github.com/containerd/containerd/v2/client"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/writ-os/writ/nodeagent/crilog"
	"github.com/writ-os/writ/nodeagent/runtime"
)

// endedTask is a daemon whose one task has ended with code 3.
type endedTask struct{ tasks.TasksClient }

func (endedTask) Get(context.Context, *tasks.GetRequest, ...grpc.CallOption) (*tasks.GetResponse, error) {
	return &tasks.GetResponse{Process: &task.Process{Status: task.Status_STOPPED, ExitStatus: 3, ExitedAt: timestamppb.Now()}}, nil
}

func (endedTask) Delete(context.Context, *tasks.DeleteTaskRequest, ...grpc.CallOption) (*tasks.DeleteResponse, error) {
	return &tasks.DeleteResponse{}, nil
}

// A container that ends on a full disk has ended: its pod can be deleted.
func TestEndIsRecordedOnAFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a small disk needs root")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=512k"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	client, err := ctrd.New("", ctrd.WithServices(ctrd.WithTaskClient(endedTask{})))
	if err != nil {
		t.Fatal(err)
	}
	r := New(Config{DataDir: dir, Log: slog.New(slog.DiscardHandler)})
	close(r.ready)
	r.client = client
	if r.logs, err = crilog.NewCollector(crilog.CollectorConfig{}); err != nil {
		t.Fatal(err)
	}
	rec := &record{c: runtime.Container{ID: "c1", PodUID: "u1", State: runtime.Running, StartedAt: time.Now(), LogPath: filepath.Join(dir, "logs", "0.log")}}
	r.containers["c1"] = rec
	if err := crilog.PrepareRaw(r.containerDir("c1")); err != nil {
		t.Fatal(err)
	}
	if err := r.saveFacts(rec.get()); err != nil {
		t.Fatal(err)
	}
	if err := r.logs.Follow("c1", r.containerDir("c1"), rec.c.LogPath); err != nil {
		t.Fatal(err)
	}
	defer r.logs.Forget("c1")
	var told atomic.Int32
	r.watchers[0] = func(runtime.Event) { told.Add(1) }
	out, _ := crilog.RawPaths(r.containerDir("c1"))
	if err := os.WriteFile(out, make([]byte, 100<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	fill, err := os.Create(filepath.Join(dir, "fill"))
	if err != nil {
		t.Fatal(err)
	}
	for size := 64 << 10; size > 0; size /= 2 {
		for err == nil {
			_, err = fill.Write(make([]byte, size))
		}
		err = nil
	}
	fill.Close()

	if err := r.reap(t.Context(), "c1"); err != nil {
		t.Errorf("record the end: %v", err)
	}
	if c := rec.get(); c.State != runtime.Exited || c.ExitCode != 3 || told.Load() != 1 {
		t.Errorf("recorded: %s, code %d, told %d times", c.State, c.ExitCode, told.Load())
	}
	if f, err := r.loadFacts("c1"); err != nil || f.ExitCode != 3 || f.FinishedAt.IsZero() {
		t.Errorf("noted: %+v %v", f, err)
	}
}

// A command that leaves a process behind, which holds its output, comes back.
func TestExecDoesNotWaitForWhatItLeftBehind(t *testing.T) {
	never := func(ctx context.Context) func() { return func() { <-ctx.Done() } }
	synctest.Test(t, func(t *testing.T) {
		left, end := context.WithCancel(t.Context())
		defer end()
		begin := time.Now()
		if err := awaitOutput(t.Context(), never(left), func() uint64 { return 7 }); err == nil || time.Since(begin) != outputIdle {
			t.Errorf("an idle pipe: %v after %s", err, time.Since(begin))
		}
		begin = time.Now()
		until := begin.Add(time.Minute)
		moving := func() uint64 { return uint64(min(time.Since(begin), time.Minute)) }
		if err := awaitOutput(t.Context(), never(left), moving); err == nil || time.Now().Before(until) || time.Since(until) > 2*outputIdle {
			t.Errorf("output that moves for a minute: %v after %s", err, time.Since(begin))
		}
		if err := awaitOutput(t.Context(), func() { time.Sleep(time.Second) }, func() uint64 { return 0 }); err != nil {
			t.Errorf("a pipe that closes: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin = time.Now()
		if err := awaitOutput(ctx, never(left), moving); err == nil || time.Since(begin) != time.Second {
			t.Errorf("a caller that goes: %v after %s", err, time.Since(begin))
		}
		end()
		synctest.Wait()
	})
}

// The namespace that others join is that of the container, for as long as its
// sandbox lives, whoever has the process ID by then.
func TestPIDNamespaceIsHeld(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	cmd := exec.Command("unshare", "--pid", "--fork", "sleep", "1000")
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "pid-x")
	if err := bindProcesses(cmd.Process.Pid, "of-no-such-container", path); err == nil {
		t.Error("a process of another container is joined")
	}
	if isNamespace(path) {
		t.Error("it was bound")
	}
	if err := bindProcesses(cmd.Process.Pid, "", path); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(path, unix.MNT_DETACH)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if !isNamespace(path) {
		t.Error("the namespace went with its process")
	}
	if err := bindProcesses(cmd.Process.Pid, "", filepath.Join(t.TempDir(), "pid-y")); err == nil {
		t.Error("a process that has ended is joined")
	}
}

// slow answers with a byte each pause, or never.
type slow struct{ pause time.Duration }

func (s slow) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.pause == 0 {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: 200, Body: io.NopCloser(&drip{r.Context(), s.pause, 20})}, nil
}

type drip struct {
	ctx   context.Context
	pause time.Duration
	left  int
}

func (d *drip) Read(b []byte) (int, error) {
	select {
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	case <-time.After(d.pause):
	}
	if d.left--; d.left < 0 {
		return 0, io.EOF
	}
	return 1, nil
}

// A registry that has stopped sending does not hold a pull, and its slot; a slow
// one, and the unpacking of layers, may take their time.
func TestStuckPullEnds(t *testing.T) {
	for _, c := range []struct {
		pause time.Duration
		stuck bool
	}{{0, true}, {time.Hour, true}, {4 * time.Minute, false}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, moves := watchPull(t.Context(), pullIdle)
			defer moves.end()
			time.Sleep(time.Hour) // nothing is asked
			if ctx.Err() != nil {
				t.Fatal("ended while nothing was asked")
			}
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://r.example/", nil)
			resp, err := moves.client(&http.Client{Transport: slow{c.pause}}).Do(req)
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			if stuck := err != nil && errors.Is(context.Cause(ctx), errPullStuck); stuck != c.stuck {
				t.Errorf("a byte each %s: %v, %v", c.pause, err, context.Cause(ctx))
			}
			time.Sleep(time.Hour) // unpacking
			if !c.stuck && ctx.Err() != nil {
				t.Error("ended while unpacking")
			}
		})
	}
}
