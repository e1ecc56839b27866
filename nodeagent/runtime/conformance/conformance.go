// Package conformance is what every container runtime of the node agent has to
// pass: the real one and the fake.
package conformance

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/writ-os/writ/nodeagent/image"
	"github.com/writ-os/writ/nodeagent/runtime"
)

// Runtime is what is tested.
type Runtime interface {
	runtime.Runtime
	image.Store
}

// Program builds the program that test containers run, and returns its path.
func Program(t testing.TB) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "prog")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", bin, "github.com/writ-os/writ/nodeagent/runtime/conformance/prog")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build test program: %v\n%s", err, out)
	}
	return bin
}

// Suite runs the conformance tests. The image writ.local/pause:v1 must be
// there; its program ends on SIGTERM.
func Suite(t *testing.T, r Runtime, cgroupParent string) {
	s := &suite{r: r, parent: cgroupParent}
	s.follow(t)
	t.Run("LifeOfAContainer", s.life)
	t.Run("ExitIsKept", s.exitKept)
	t.Run("RemoveKills", s.removeKills)
	t.Run("SignalOfTheDead", s.signalDead)
	t.Run("AttemptsAndLabels", s.attempts)
	t.Run("SandboxTwice", s.sandboxTwice)
	t.Run("CreateWithoutImage", s.noImage)
	t.Run("ExecStreams", s.execStreams)
	t.Run("ExecExit", s.execExit)
	t.Run("ExecOfTheDead", s.execDead)
	t.Run("Attach", s.attach)
	t.Run("AttachTerminal", s.attachTerminal)
	t.Run("StdinOnce", s.stdinOnce)
	t.Run("Dial", s.dial)
	t.Run("Update", s.update)
}

type suite struct {
	r      Runtime
	parent string

	mu     sync.Mutex
	events []runtime.Event
}

// follow records events for the length of the test.
func (s *suite) follow(t *testing.T) {
	ready, done := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(done)
		_ = s.r.Watch(ctx, func() { close(ready) }, func(e runtime.Event) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.events = append(s.events, e)
		})
	}()
	<-ready
	t.Cleanup(func() { cancel(); <-done })
}

func (s *suite) seen(e runtime.Event) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, x := range s.events {
		if x == e {
			n++
		}
	}
	return n
}

// pod makes a sandbox that is gone at the end of the test.
func (s *suite) pod(t *testing.T) string {
	t.Helper()
	uid := fmt.Sprintf("uid-%d", time.Now().UnixNano())
	err := s.r.EnsureSandbox(t.Context(), runtime.SandboxSpec{
		PodUID: uid, Namespace: "default", Name: "p", Hostname: "p", CgroupParent: s.parent + "/pod" + uid,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		list, err := s.r.List(ctx, uid)
		if err != nil {
			t.Error(err)
		}
		for _, c := range list {
			if err := s.r.Remove(ctx, c.ID); err != nil {
				t.Error(err)
			}
		}
		if err := s.r.RemoveSandbox(ctx, uid); err != nil {
			t.Error(err)
		}
	})
	return uid
}

func (s *suite) spec(uid string, attempt int) runtime.Spec {
	return runtime.Spec{
		PodUID: uid, PodNamespace: "default", PodName: "p", Name: "c", Attempt: attempt, Hash: "h1",
		Backoff: 20 * time.Second, Grace: 7 * time.Second, Image: image.Pause, CgroupParent: s.parent + "/pod" + uid,
	}
}

func (s *suite) run(t *testing.T, sp runtime.Spec) string {
	t.Helper()
	id, err := s.r.Create(t.Context(), sp)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.r.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	return id
}

// Await waits until a container is in a state.
func Await(t testing.TB, r runtime.Runtime, uid, id string, st runtime.State) runtime.Container {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for {
		list, err := r.List(t.Context(), uid)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(list, func(c runtime.Container) bool { return c.ID == id })
		if i >= 0 && list[i].State == st {
			return list[i]
		}
		if time.Now().After(deadline) {
			t.Fatalf("container %s did not become %s; have %+v", id, st, list)
		}
		time.Sleep(time.Millisecond)
	}
}

func (s *suite) life(t *testing.T) {
	uid := s.pod(t)
	id, err := s.r.Create(t.Context(), s.spec(uid, 0))
	if err != nil {
		t.Fatal(err)
	}
	c := Await(t, s.r, uid, id, runtime.Created)
	if !c.StartedAt.IsZero() || c.Pid != 0 {
		t.Errorf("created container has started: %+v", c)
	}
	if err := s.r.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	c = Await(t, s.r, uid, id, runtime.Running)
	if c.StartedAt.IsZero() || c.Pid == 0 || c.ImageID == "" {
		t.Errorf("running container lacks facts: %+v", c)
	}
	if s.seen(runtime.Event{PodUID: uid, ID: id}) == 0 {
		t.Error("no event of the start")
	}
	// A program that has just been executed may not catch signals yet.
	time.Sleep(50 * time.Millisecond)
	if err := s.r.Signal(t.Context(), id, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c = Await(t, s.r, uid, id, runtime.Exited)
	if c.FinishedAt.Before(c.StartedAt) {
		t.Errorf("finished before it started: %+v", c)
	}
}

func (s *suite) exitKept(t *testing.T) {
	uid := s.pod(t)
	id := s.run(t, s.spec(uid, 0))
	if err := s.r.Signal(t.Context(), id, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c := Await(t, s.r, uid, id, runtime.Exited)
	if c.ExitCode != 137 || c.Reason != runtime.ReasonError {
		t.Errorf("killed container: exit code %d, reason %q", c.ExitCode, c.Reason)
	}
	if since, err := s.r.Sandbox(t.Context(), uid); err != nil || since.IsZero() {
		t.Errorf("sandbox went with its last container: %v, %v", since, err)
	}
	next := s.run(t, s.spec(uid, 1))
	Await(t, s.r, uid, next, runtime.Running)
	Await(t, s.r, uid, id, runtime.Exited)
}

func (s *suite) removeKills(t *testing.T) {
	uid := s.pod(t)
	id := s.run(t, s.spec(uid, 0))
	if err := s.r.Remove(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	list, err := s.r.List(t.Context(), uid)
	if err != nil || len(list) != 0 {
		t.Errorf("removed container is listed: %v, %v", list, err)
	}
	if err := s.r.Remove(t.Context(), id); err != nil {
		t.Errorf("removing again: %v", err)
	}
}

func (s *suite) signalDead(t *testing.T) {
	uid := s.pod(t)
	id := s.run(t, s.spec(uid, 0))
	for range 3 {
		if err := s.r.Signal(t.Context(), id, syscall.SIGKILL); err != nil {
			t.Errorf("signal: %v", err)
		}
	}
	Await(t, s.r, uid, id, runtime.Exited)
	if err := s.r.Signal(t.Context(), id, syscall.SIGTERM); err != nil {
		t.Errorf("signal of an ended container: %v", err)
	}
	if err := s.r.Signal(t.Context(), "nobody", syscall.SIGTERM); err != nil {
		t.Errorf("signal of no container: %v", err)
	}
}

func (s *suite) attempts(t *testing.T) {
	uid := s.pod(t)
	id := s.run(t, s.spec(uid, 3))
	c := Await(t, s.r, uid, id, runtime.Running)
	if c.PodNamespace != "default" || c.PodName != "p" || c.Name != "c" || c.Attempt != 3 ||
		c.Hash != "h1" || c.Backoff != 20*time.Second || c.Grace != 7*time.Second || c.Image != image.Pause {
		t.Errorf("what was asked for is not kept: %+v", c)
	}
}

func (s *suite) sandboxTwice(t *testing.T) {
	uid := s.pod(t)
	first, err := s.r.Sandbox(t.Context(), uid)
	if err != nil || first.IsZero() {
		t.Fatalf("sandbox: %v, %v", first, err)
	}
	if err := s.r.EnsureSandbox(t.Context(), runtime.SandboxSpec{PodUID: uid, Namespace: "default", Name: "p", Hostname: "p"}); err != nil {
		t.Fatal(err)
	}
	if again, err := s.r.Sandbox(t.Context(), uid); err != nil || !again.Equal(first) {
		t.Errorf("a complete sandbox was made anew: %v, then %v (%v)", first, again, err)
	}
	all, err := s.r.Sandboxes(t.Context())
	if err != nil || !slices.Contains(all, uid) {
		t.Errorf("sandbox is not listed: %v, %v", all, err)
	}
}

func (s *suite) noImage(t *testing.T) {
	uid := s.pod(t)
	sp := s.spec(uid, 0)
	sp.Image = "writ.local/none:v1"
	if id, err := s.r.Create(t.Context(), sp); err == nil {
		t.Errorf("created %s of no image", id)
	}
	if list, _ := s.r.List(t.Context(), uid); len(list) != 0 {
		t.Errorf("a failed create left %v", list)
	}
}
