package containerd

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/writ-os/writ/nodeagent/image"
	"github.com/writ-os/writ/nodeagent/runtime"
	"github.com/writ-os/writ/nodeagent/runtime/conformance"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newTestLog() *slog.Logger {
	if testing.Verbose() {
		return slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	return slog.New(slog.DiscardHandler)
}

// Containers outlive the agent; the next one finds them under the same IDs,
// with the same start, the same process, and every line of their output.
func TestReadoption(t *testing.T) {
	n := newTestNode(t)
	r, stop := n.start(t)
	n.withImages(t, r)
	running, log := n.container(t, r, func(s *runtime.Spec) { s.Command = []string{"/writ", "print", "1000"} })
	ended, _ := n.container(t, r, func(s *runtime.Spec) { s.Command = []string{"/writ", "exit", "3", "bye"} })
	conformance.Await(t, r, ended.PodUID, ended.ID, runtime.Exited)
	dying, dyingLog := n.container(t, r, func(s *runtime.Spec) { s.Command = []string{"/writ", "last", "5"} })
	// A program that does not yet wait for the signal would lose it, or die of it.
	awaitLog(t, dyingLog, func(s string) bool { return strings.HasSuffix(s, "ready\n") })
	stop()

	// While no agent runs, one of the containers says its last words and ends.
	if err := syscall.Kill(dying.Pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for syscall.Kill(dying.Pid, 0) == nil {
		if time.Since(dying.StartedAt) > time.Minute {
			t.Fatal("the container that was told to end runs on")
		}
		time.Sleep(time.Millisecond)
	}
	r, _ = n.start(t)
	again := conformance.Await(t, r, running.PodUID, running.ID, runtime.Running)
	if again.Pid != running.Pid || !again.StartedAt.Equal(running.StartedAt) {
		t.Errorf("running container changed: %+v, was %+v", again, running)
	}
	awaitLog(t, log, func(s string) bool { return strings.Count(s, "\n") == 1000 && strings.HasSuffix(s, "line 999\n") })
	if c := conformance.Await(t, r, ended.PodUID, ended.ID, runtime.Exited); c.ExitCode != 3 || c.Reason != runtime.ReasonError {
		t.Errorf("the exit was forgotten: %+v", c)
	}
	if c := conformance.Await(t, r, dying.PodUID, dying.ID, runtime.Exited); c.ExitCode != 137 {
		t.Errorf("the exit that nobody saw: %+v", c)
	}
	awaitLog(t, dyingLog, func(s string) bool { return strings.Count(s, "\n") == 1+5 })
	for _, c := range []runtime.Container{running, ended, dying} {
		n.remove(t, r, c)
	}
}

func TestStartError(t *testing.T) {
	n := newTestNode(t)
	r, _ := n.start(t)
	n.withImages(t, r)
	uid := "uid-start-error"
	if err := r.EnsureSandbox(t.Context(), runtime.SandboxSpec{PodUID: uid, Hostname: "p", CgroupParent: n.group}); err != nil {
		t.Fatal(err)
	}
	id, err := r.Create(t.Context(), runtime.Spec{PodUID: uid, Name: "c", Image: image.Pause, Command: []string{"/none"}, CgroupParent: n.group})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(t.Context(), id); err == nil || !strings.Contains(err.Error(), "/none") {
		t.Errorf("start of no program: %v", err)
	}
	c := conformance.Await(t, r, uid, id, runtime.Exited)
	if c.Reason != runtime.ReasonStartError || c.ExitCode != 127 && c.ExitCode != 128 {
		t.Errorf("container that could not be started: %+v", c)
	}
	n.remove(t, r, c)
}

func TestOutOfMemoryIsSaid(t *testing.T) {
	n := newTestNode(t)
	r, _ := n.start(t)
	n.withImages(t, r)
	c, _ := n.container(t, r, func(s *runtime.Spec) {
		s.Command = []string{"/writ", "hog"}
		s.Resources.Memory = 32 << 20
	})
	c = conformance.Await(t, r, c.PodUID, c.ID, runtime.Exited)
	if c.Reason != runtime.ReasonOOMKilled || c.ExitCode != 137 {
		t.Errorf("container beyond its memory: %d %s", c.ExitCode, c.Reason)
	}
	n.remove(t, r, c)
}

func TestExecAndStats(t *testing.T) {
	n := newTestNode(t)
	r, _ := n.start(t)
	n.withImages(t, r)
	user := int64(1234)
	c, _ := n.container(t, r, func(s *runtime.Spec) {
		s.Security.User, s.Security.SupplementalGroups = &user, []int64{77}
	})
	var out bytes.Buffer
	code, err := r.Exec(t.Context(), c.ID, runtime.ExecSpec{Command: []string{"/writ", "id"}, Stdout: &out, Stderr: &out})
	if err != nil || code != 0 || out.String() != "1234 0 [0 77] "+must(os.Hostname())+"\n" {
		t.Errorf("exec: %d, %v: %q", code, err, out.String())
	}
	code, err = r.Exec(t.Context(), c.ID, runtime.ExecSpec{Command: []string{"/writ", "exit", "5"}, Stdout: &out, Stderr: &out})
	if err != nil || code != 5 {
		t.Errorf("exec that fails: %d, %v", code, err)
	}
	if st, err := r.Stats(t.Context(), c.ID); err != nil || st.Memory == 0 || st.CPU == 0 {
		t.Errorf("stats: %+v, %v", st, err)
	}
	n.remove(t, r, c)
}

// The daemon may be restarted under the agent.
func TestDaemonIsStartedAgain(t *testing.T) {
	n := newTestNode(t)
	r, _ := n.start(t)
	n.withImages(t, r)
	c, _ := n.container(t, r, nil)
	d := &daemon{cfg: n.config()}
	pid, ok := d.running()
	if !ok {
		t.Fatal("no daemon runs")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		if next, ok := d.running(); ok && next != pid && answers(n.run+"/containerd.sock") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the daemon was not started again")
		}
		time.Sleep(10 * time.Millisecond)
	}
	again := conformance.Await(t, r, c.PodUID, c.ID, runtime.Running)
	if again.Pid != c.Pid {
		t.Errorf("container changed: %+v", again)
	}
	if err := r.Signal(t.Context(), c.ID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	conformance.Await(t, r, c.PodUID, c.ID, runtime.Exited)
	n.remove(t, r, c)
}

// BenchmarkPod starts and ends a pod of one container with a local image.
func BenchmarkPod(b *testing.B) {
	n := newTestNode(b)
	r, _ := n.start(b)
	n.withImages(b, r)
	var create, start, end time.Duration
	for b.Loop() {
		t0 := time.Now()
		uid := "uid-bench"
		if err := r.EnsureSandbox(b.Context(), runtime.SandboxSpec{PodUID: uid, Hostname: "p", CgroupParent: n.group}); err != nil {
			b.Fatal(err)
		}
		id, err := r.Create(b.Context(), runtime.Spec{PodUID: uid, Name: "c", Image: image.Pause, CgroupParent: n.group, LogPath: n.dir + "/logs/0.log"})
		if err != nil {
			b.Fatal(err)
		}
		t1 := time.Now()
		if err := r.Start(b.Context(), id); err != nil {
			b.Fatal(err)
		}
		t2 := time.Now()
		if err := r.Remove(b.Context(), id); err != nil {
			b.Fatal(err)
		}
		if err := r.RemoveSandbox(b.Context(), uid); err != nil {
			b.Fatal(err)
		}
		create, start, end = create+t1.Sub(t0), start+t2.Sub(t1), end+time.Since(t2)
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 / float64(b.N) }
	b.ReportMetric(ms(create), "ms-create")
	b.ReportMetric(ms(start), "ms-start")
	b.ReportMetric(ms(end), "ms-remove")
}
