package nodeagent

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/nodeagent/cgroup"
	"github.com/writ-os/writ/nodeagent/image"
	"github.com/writ-os/writ/nodeagent/network"
	"github.com/writ-os/writ/nodeagent/runtime/conformance"
	"github.com/writ-os/writ/nodeagent/runtime/containerd"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/defaults"
)

// hostNet puts every pod into the host's network, where probes find it on the
// loopback address.
type hostNet struct{}

func (hostNet) Attach(context.Context, network.Pod) (network.Attachment, error) {
	return network.Attachment{IPs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}, nil
}
func (hostNet) Detach(context.Context, string) error { return nil }

// realNode is a node on a real containerd, with a server in memory.
type realNode struct {
	t       testing.TB
	api     *client.Fake
	dir     string
	run     string
	group   string
	cgroups *cgroup.Manager
	rt      *containerd.Runtime
	stop    func()
}

func newRealNode(t testing.TB) *realNode {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root")
	}
	for _, bin := range []string{"containerd", "runc"} {
		if _, err := exec.LookPath(bin); err != nil {
			t.Skip(bin + " is not installed")
		}
	}
	run, err := os.MkdirTemp("/run", "writ-test-")
	if err != nil {
		t.Fatal(err)
	}
	cg, err := cgroup.New("")
	if err != nil {
		t.Fatal(err)
	}
	n := &realNode{t: t, api: client.NewFake(), dir: t.TempDir(), run: run, group: "/" + filepath.Base(run), cgroups: cg}
	t.Cleanup(n.clean)
	n.start()
	if _, err := image.ImportShipped(t.Context(), n.rt, conformance.Program(t)); err != nil {
		t.Fatal(err)
	}
	return n
}

// start begins an agent; stop ends it.
func (n *realNode) start() {
	n.t.Helper()
	log := slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	n.rt = containerd.New(containerd.Config{DataDir: n.dir, RunDir: n.run, OwnDaemon: true, Cgroups: n.cgroups, Log: log})
	a := New(Config{
		NodeName: "n1", NodeIP: "127.0.0.1", Client: n.api, Cache: n.api.Cache(), DataDir: n.dir,
		Runtime: n.rt, Network: hostNet{}, Cgroups: n.cgroups, CgroupRoot: n.group, Log: log,
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	n.stop = func() {
		n.stop = func() {}
		cancel()
		if err := <-done; err != nil {
			n.t.Errorf("run: %v", err)
		}
	}
	select {
	case <-n.rt.Ready():
	case err := <-done:
		n.t.Fatalf("run: %v", err)
	}
}

// clean ends all pods by deleting them, then the daemon, and checks that
// nothing is left.
func (n *realNode) clean() {
	ctx := context.Background()
	pods, err := client.ListAll[*corev1.Pod](ctx, n.api, client.ListOptions{})
	if err != nil {
		n.t.Error(err)
	}
	for _, p := range pods {
		zero := int64(0)
		_ = client.Delete[*corev1.Pod](ctx, n.api, schema.KeyOf(p), client.DeleteOptions{GracePeriodSeconds: &zero})
	}
	for i := 0; i < 1000; i++ {
		if left, _ := n.rt.List(ctx, ""); len(left) == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	for i := 0; i < 500; i++ {
		if left, _ := os.ReadDir(filepath.Join(n.dir, "pods")); len(left) == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	n.stop()
	stopCtx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := containerd.StopOwnDaemon(stopCtx, n.dir); err != nil {
		n.t.Error(err)
	}
	if out, err := exec.Command("pgrep", "-f", n.run).Output(); err == nil {
		n.t.Errorf("processes are left behind: %s", out)
	}
	if b, err := os.ReadFile("/proc/self/mountinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if strings.Contains(line, n.run) || strings.Contains(line, n.dir) {
				n.t.Errorf("mount is left behind: %s", line)
			}
		}
	}
	if err := n.cgroups.Remove(n.group); err != nil {
		n.t.Error(err)
	}
	if err := os.RemoveAll(n.run); err != nil {
		n.t.Error(err)
	}
}

// testPod is a pod that ends soon when it is told to: the first process of a
// container that has just begun misses the signal while it sets up its own, and
// is killed after the grace only.
func testPod(name string, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
		Spec: corev1.PodSpec{NodeName: "n1", TerminationGracePeriodSeconds: new(int64(5)), Containers: []corev1.Container{{
			Name: "c", Image: image.DemoV1,
		}}},
	}
	if change != nil {
		change(p)
	}
	defaults.Apply(p)
	return p
}

// await waits until a pod on the server is as wanted.
func (n *realNode) await(name, what string, ok func(*corev1.Pod) bool) *corev1.Pod {
	n.t.Helper()
	var last *corev1.Pod
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		p, err := client.Get[*corev1.Pod](n.t.Context(), n.api, schema.Key{Namespace: "default", Name: name})
		if err != nil {
			n.t.Fatal(err)
		}
		if ok(p) {
			return p
		}
		last = p
	}
	n.t.Fatalf("pod %s: not %s: %+v", name, what, last.Status)
	return nil
}

func (n *realNode) gone(name string) {
	n.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		_, err := client.Get[*corev1.Pod](n.t.Context(), n.api, schema.Key{Namespace: "default", Name: name})
		if apierrors.IsNotFound(err) {
			return
		}
	}
	n.t.Fatalf("pod %s is still there", name)
}

func (n *realNode) create(p *corev1.Pod) {
	n.t.Helper()
	n.api.Put(p)
}

func runningReady(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodRunning && len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].Ready
}

func (n *realNode) logs(p *corev1.Pod, container string, attempt int) string {
	n.t.Helper()
	path := filepath.Join(n.dir, "logs", fmt.Sprintf("%s_%s_%s", p.Namespace, p.Name, p.UID), container, fmt.Sprintf("%d.log", attempt))
	b, err := os.ReadFile(path)
	if err != nil {
		n.t.Fatal(err)
	}
	return string(b)
}

// The main job: a pod with everything a first pod has, from bound to running
// to deleted.
func TestPodFromBoundToDeleted(t *testing.T) {
	n := newRealNode(t)
	n.api.Put(&corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "conf"},
		Data: map[string]string{"greeting": "hello"},
	})
	n.create(testPod("web", func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "conf", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "conf"}}}}}
		p.Spec.InitContainers = []corev1.Container{{
			Name: "init", Image: image.DemoV1, Command: []string{"/writ", "cat", "/etc/conf/greeting"},
			VolumeMounts: []corev1.VolumeMount{{Name: "conf", MountPath: "/etc/conf"}},
		}}
		c := &p.Spec.Containers[0]
		c.Command = []string{"/writ", "serve", "18081"}
		c.Env = []corev1.EnvVar{{Name: "GREETING", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "conf"}, Key: "greeting"}}}}
		c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(18081)}}, PeriodSeconds: 1}
	}))
	p := n.await("web", "ready", runningReady)
	if got := n.logs(p, "init", 0); !strings.HasSuffix(got, "stdout F hello\n") && !strings.Contains(got, "hello") {
		t.Errorf("log of the init container: %q", got)
	}
	if p.Status.PodIP == "" || p.Status.HostIP == "" || p.Status.StartTime == nil || p.Status.QOSClass != corev1.PodQOSBestEffort {
		t.Errorf("status: %+v", p.Status)
	}
	if err := client.Delete[*corev1.Pod](t.Context(), n.api, schema.KeyOf(p), client.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	n.gone("web")
}

// A process that is killed comes back; again and again with a growing pause.
// A restart of the agent changes nothing about what runs.
func TestCrashAndReadoption(t *testing.T) {
	n := newRealNode(t)
	n.create(testPod("a", nil))
	p := n.await("a", "ready", runningReady)
	first := p.Status.ContainerStatuses[0].ContainerID

	n.stop()
	n.start()
	time.Sleep(300 * time.Millisecond)
	p = n.await("a", "ready", runningReady)
	if p.Status.ContainerStatuses[0].ContainerID != first || p.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Fatalf("the agent's restart restarted the container: %+v", p.Status.ContainerStatuses[0])
	}

	n.kill9(p)
	p = n.await("a", "restarted", func(p *corev1.Pod) bool {
		return runningReady(p) && p.Status.ContainerStatuses[0].RestartCount == 1
	})
	last := p.Status.ContainerStatuses[0].LastTerminationState.Terminated
	if last == nil || last.ExitCode != 137 || last.Reason != "Error" || last.ContainerID != first {
		t.Errorf("last state: %+v", last)
	}
	n.kill9(p)
	p = n.await("a", "backing off", func(p *corev1.Pod) bool {
		w := p.Status.ContainerStatuses[0].State.Waiting
		return w != nil && w.Reason == "CrashLoopBackOff"
	})
	want := "back-off 10s restarting failed container=c pod=a_default(uid-a)"
	if got := p.Status.ContainerStatuses[0].State.Waiting.Message; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	if p.Status.Phase != corev1.PodRunning {
		t.Errorf("phase %s", p.Status.Phase)
	}
}

// kill9 kills the process of a pod's container.
func (n *realNode) kill9(p *corev1.Pod) {
	n.t.Helper()
	id := strings.TrimPrefix(p.Status.ContainerStatuses[0].ContainerID, "containerd://")
	list, err := n.rt.List(n.t.Context(), string(p.UID))
	if err != nil {
		n.t.Fatal(err)
	}
	for _, c := range list {
		if c.ID == id {
			if err := syscall.Kill(c.Pid, syscall.SIGKILL); err != nil {
				n.t.Fatal(err)
			}
			return
		}
	}
	n.t.Fatalf("no container %s", id)
}

// BenchmarkBoundToRunning is the time from a pod's appearance on the server to
// its Running there, then of its deletion.
func BenchmarkBoundToRunning(b *testing.B) {
	n := newRealNode(b)
	var up, down time.Duration
	i := 0
	for b.Loop() {
		i++
		name := fmt.Sprintf("p%d", i)
		t0 := time.Now()
		n.create(testPod(name, nil))
		p := n.await(name, "ready", runningReady)
		t1 := time.Now()
		if err := client.Delete[*corev1.Pod](b.Context(), n.api, schema.KeyOf(p), client.DeleteOptions{}); err != nil {
			b.Fatal(err)
		}
		n.gone(name)
		up, down = up+t1.Sub(t0), down+time.Since(t1)
	}
	b.ReportMetric(float64(up.Milliseconds())/float64(i), "ms-running")
	b.ReportMetric(float64(down.Milliseconds())/float64(i), "ms-deleted")
}
