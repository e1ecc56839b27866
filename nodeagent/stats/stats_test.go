package stats

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/writ-os/writ/nodeagent/cgroup"
	"github.com/writ-os/writ/nodeagent/runtime"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// world is a node with the pod shop/web, whose container c uses a quarter of a
// core and whose clock stands still until it is moved.
type world struct {
	now     time.Time
	started time.Time
}

func (w *world) List(context.Context, string) ([]runtime.Container, error) {
	return []runtime.Container{
		{ID: "1", PodUID: "u", Name: "c", State: runtime.Running, StartedAt: w.started, Pid: 42},
		{ID: "0", PodUID: "u", Name: "c", State: runtime.Exited},
		{ID: "9", PodUID: "unknown", Name: "x", State: runtime.Running},
	}, nil
}

func (w *world) Stats(_ context.Context, id string) (runtime.Stats, error) {
	if id != "1" {
		return runtime.Stats{}, runtime.ErrNotFound
	}
	return runtime.Stats{Time: w.now, CPU: w.now.Sub(w.started) / 4, Memory: 30, WorkingSet: 20, RSS: 10, Pids: 3}, nil
}

func (w *world) collector(t *testing.T) *Collector {
	t.Helper()
	proc := t.TempDir()
	for name, text := range map[string]string{
		"stat":                 "cpu  100 20 30 4000 500 6 7 8 0 0\ncpu0 1 2 3\n",
		"meminfo":              "MemTotal:       1000 kB\nMemFree:         400 kB\nInactive(file):  100 kB\nAnonPages:        50 kB\n",
		"loadavg":              "0.1 0.2 0.3 2/321 4567\n",
		"sys/kernel/pid_max":   "32768\n",
		"42/net/dev":           "Inter-|   Receive\n face |bytes\n    lo: 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9\n  eth0: 11 1 2 0 0 0 0 0 22 1 3 0 0 0 0 0\n",
		"net/dev":              "",
		"not-a-process/nobody": "",
	} {
		path := filepath.Join(proc, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u"}}
	idle := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "idle", UID: "i"}}
	return New(Config{
		NodeName: "n1", Containers: w, Pods: func() []*corev1.Pod { return []*corev1.Pod{pod, idle} }, Proc: proc, Now: func() time.Time { return w.now },
		Usage: func(*corev1.Pod) (cgroup.Usage, error) {
			return cgroup.Usage{CPU: w.now.Sub(w.started) / 2, Memory: 60, WorkingSet: 40}, nil
		},
	})
}

func TestSummary(t *testing.T) {
	w := &world{now: t0, started: t0.Add(-time.Minute)}
	c := w.collector(t)
	first, err := c.Summary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if first.Pods[0].CPU.UsageNanoCores != nil {
		t.Error("a speed from one reading")
	}
	w.now = t0.Add(10 * time.Second)
	s, err := c.Summary(t.Context())
	if err != nil || len(s.Pods) != 1 || len(s.Pods[0].Containers) != 1 {
		t.Fatalf("%v: %+v", err, s)
	}
	p := s.Pods[0]
	for what, got := range map[string][2]uint64{
		"container's cores":    {*p.Containers[0].CPU.UsageNanoCores, 250_000_000},
		"container's seconds":  {*p.Containers[0].CPU.UsageCoreNanoSeconds, uint64(70 * time.Second / 4)},
		"container's memory":   {*p.Containers[0].Memory.WorkingSetBytes, 20},
		"pod's cores":          {*p.CPU.UsageNanoCores, 500_000_000},
		"pod's memory":         {*p.Memory.WorkingSetBytes, 40},
		"pod's bytes received": {*p.Network.RxBytes, 11},
		"pod's bytes sent":     {*p.Network.TxBytes, 22},
		"node's seconds":       {*s.Node.CPU.UsageCoreNanoSeconds, uint64((100 + 20 + 30 + 6 + 7 + 8) * 10 * time.Millisecond)},
		"node's memory":        {*s.Node.Memory.WorkingSetBytes, 500 << 10},
		"node's free memory":   {*s.Node.Memory.AvailableBytes, 500 << 10},
		"node's processes":     {uint64(*s.Node.Rlimit.NumOfRunningProcesses), 321},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %d, want %d", what, got[0], got[1])
		}
	}
	// Asked again at once it says the same, not nonsense from too short a time.
	w.now = w.now.Add(time.Millisecond)
	if s, err = c.Summary(t.Context()); err != nil || *s.Pods[0].CPU.UsageNanoCores != 500_000_000 {
		t.Errorf("asked again: %v, %v", s.Pods[0].CPU, err)
	}
}

func TestUsage(t *testing.T) {
	w := &world{now: t0, started: t0.Add(-time.Minute)}
	c := w.collector(t)
	before := must(c.Summary(t.Context()))
	if got := PodUsage(&statsapi.Summary{}, before); len(got) != 0 {
		t.Errorf("usage from one reading: %v", got)
	}
	w.now = t0.Add(15 * time.Second)
	after := must(c.Summary(t.Context()))
	pods := PodUsage(before, after)
	if len(pods) != 1 || pods[0].Name != "web" || pods[0].Window.Duration != 15*time.Second || !pods[0].Timestamp.Time.Equal(w.now) {
		t.Fatalf("%+v", pods)
	}
	u := pods[0].Containers[0].Usage
	if u.Cpu().String() != "250m" || u.Memory().String() != "20" {
		t.Errorf("usage: %s, %s", u.Cpu(), u.Memory())
	}
	node, ok := NodeUsage(before, after)
	if !ok || node.Name != "n1" || node.Usage.Memory().String() != "500Ki" || !node.Usage.Cpu().IsZero() {
		t.Errorf("%v %+v", ok, node)
	}
	// A container that was started again has no usage until it was read twice.
	w.started, w.now = w.now.Add(time.Second), w.now.Add(15*time.Second)
	if got := PodUsage(after, must(c.Summary(t.Context()))); len(got) != 0 {
		t.Errorf("usage across a restart: %+v", got)
	}
}

func TestMetrics(t *testing.T) {
	w := &world{now: t0, started: t0.Add(-time.Minute)}
	m := Metrics{Summary: must(w.collector(t).Summary(t.Context()))}
	err := testutil.CollectAndCompare(m, strings.NewReader(`# HELP container_cpu_usage_seconds_total [STABLE] Cumulative cpu time consumed by the container in core-seconds
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container="c",namespace="shop",pod="web"} 15 1767323045000
# HELP node_cpu_usage_seconds_total [STABLE] Cumulative cpu time consumed by the node in core-seconds
# TYPE node_cpu_usage_seconds_total counter
node_cpu_usage_seconds_total 1.71 1767323045000
# HELP pod_memory_working_set_bytes [STABLE] Current working set of the pod in bytes
# TYPE pod_memory_working_set_bytes gauge
pod_memory_working_set_bytes{namespace="shop",pod="web"} 40 1767323045000
# HELP resource_scrape_error [STABLE] 1 if there was an error while getting container metrics, 0 otherwise
# TYPE resource_scrape_error gauge
resource_scrape_error 0
`), "container_cpu_usage_seconds_total", "node_cpu_usage_seconds_total", "pod_memory_working_set_bytes", "resource_scrape_error")
	if err != nil {
		t.Error(err)
	}
	if n := testutil.CollectAndCount(Metrics{}); n != 2 {
		t.Errorf("a failed reading has %d metrics", n)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
