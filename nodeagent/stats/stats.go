// Package stats measures a node, its pods and their containers, in the words of
// upstream's kubelet: the Summary of /stats/summary, the metrics of
// /metrics/resource, and the usage that metrics.k8s.io serves.
//
// It watches nothing and has no goroutine: it reads control groups and /proc
// when it is asked, and remembers the last reading of everything that still
// runs, to say how fast processor time is used. It owns that memory alone.
package stats

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/writ-os/writ/nodeagent/cgroup"
	"github.com/writ-os/writ/nodeagent/runtime"
)

// Containers are the containers of the node; a runtime.Runtime is one.
type Containers interface {
	List(ctx context.Context, podUID string) ([]runtime.Container, error)
	Stats(ctx context.Context, id string) (runtime.Stats, error)
}

// Config is everything that a Collector needs from outside.
type Config struct {
	NodeName   string
	Containers Containers
	// Pods returns the pods of the node.
	Pods func() []*corev1.Pod
	// Usage measures the control group of a pod; nil where there are none.
	Usage func(pod *corev1.Pod) (cgroup.Usage, error)
	// Dir is on the file system that pods and images are kept on; "" has none.
	Dir string
	// Proc is where the kernel shows processes; "" is /proc.
	Proc string
	Now  func() time.Time // default time.Now
}

// Collector measures.
type Collector struct {
	cfg   Config
	start time.Time

	mu      sync.Mutex
	samples map[string]sample
}

// sample is a reading of processor time, and how fast it grew before that.
type sample struct {
	at   time.Time
	cpu  time.Duration
	rate *uint64 // billionths of a core
}

// New returns a collector; it starts nothing.
func New(cfg Config) *Collector {
	if cfg.Proc == "" {
		cfg.Proc = "/proc"
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Collector{cfg: cfg, start: cfg.Now(), samples: map[string]sample{}}
}

// Summary measures everything that runs. What cannot be read is left out.
func (c *Collector) Summary(ctx context.Context) (*statsapi.Summary, error) {
	list, err := c.cfg.Containers.List(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("measure node %s: %w", c.cfg.NodeName, err)
	}
	byPod := map[string][]runtime.Container{}
	for _, r := range list {
		if r.State == runtime.Running {
			byPod[r.PodUID] = append(byPod[r.PodUID], r)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := map[string]sample{}
	out := &statsapi.Summary{Node: c.node(seen), Pods: []statsapi.PodStats{}}
	for _, pod := range c.cfg.Pods() {
		if running := byPod[string(pod.UID)]; len(running) > 0 {
			out.Pods = append(out.Pods, c.pod(ctx, pod, running, seen))
		}
	}
	slices.SortFunc(out.Pods, func(a, b statsapi.PodStats) int {
		return cmp.Or(cmp.Compare(a.PodRef.Namespace, b.PodRef.Namespace), cmp.Compare(a.PodRef.Name, b.PodRef.Name))
	})
	c.samples = seen // what has ended is forgotten
	return out, nil
}

// pod measures one pod.
func (c *Collector) pod(ctx context.Context, pod *corev1.Pod, running []runtime.Container, seen map[string]sample) statsapi.PodStats {
	out := statsapi.PodStats{
		PodRef:    statsapi.PodReference{Name: pod.Name, Namespace: pod.Namespace, UID: string(pod.UID)},
		StartTime: stamp(pod.CreationTimestamp.Time),
	}
	if pod.Status.StartTime != nil {
		out.StartTime = *pod.Status.StartTime
	}
	var total runtime.Stats
	for i := range running {
		st, err := c.cfg.Containers.Stats(ctx, running[i].ID)
		if err != nil {
			continue // it has ended meanwhile
		}
		out.Containers = append(out.Containers, c.container(&running[i], st, seen))
		total.Time, total.CPU, total.Memory = st.Time, total.CPU+st.CPU, total.Memory+st.Memory
		total.WorkingSet, total.RSS, total.Pids = total.WorkingSet+st.WorkingSet, total.RSS+st.RSS, total.Pids+st.Pids
	}
	slices.SortFunc(out.Containers, func(a, b statsapi.ContainerStats) int { return cmp.Compare(a.Name, b.Name) })
	if c.cfg.Usage != nil {
		if u, err := c.cfg.Usage(pod); err == nil {
			total = runtime.Stats{Time: c.cfg.Now(), CPU: u.CPU, Memory: u.Memory, WorkingSet: u.WorkingSet, RSS: u.RSS, Pids: u.Pids}
		}
	}
	out.CPU, out.Memory = c.usage("pod/"+string(pod.UID), total, seen)
	out.ProcessStats = &statsapi.ProcessStats{ProcessCount: &total.Pids}
	if !pod.Spec.HostNetwork {
		out.Network = c.network(running[0].Pid)
	}
	return out
}

func (c *Collector) container(r *runtime.Container, st runtime.Stats, seen map[string]sample) statsapi.ContainerStats {
	out := statsapi.ContainerStats{Name: r.Name, StartTime: stamp(r.StartedAt)}
	out.CPU, out.Memory = c.usage(r.ID, st, seen)
	return out
}

// usage puts a measurement in upstream's words.
func (c *Collector) usage(key string, st runtime.Stats, seen map[string]sample) (*statsapi.CPUStats, *statsapi.MemoryStats) {
	at := metav1.NewTime(st.Time)
	cpu := &statsapi.CPUStats{Time: at, UsageCoreNanoSeconds: new(uint64(st.CPU)), UsageNanoCores: c.rate(key, st.Time, st.CPU, seen)}
	memory := &statsapi.MemoryStats{Time: at, UsageBytes: &st.Memory, WorkingSetBytes: &st.WorkingSet, RSSBytes: &st.RSS}
	return cpu, memory
}

// steady is how far two readings must be apart to say how fast something is.
const steady = 5 * time.Second

// rate says how fast processor time is used: since the reading before, or as
// said then if that is too short ago. nil is not known yet.
func (c *Collector) rate(key string, at time.Time, cpu time.Duration, seen map[string]sample) *uint64 {
	last, ok := c.samples[key]
	passed := at.Sub(last.at)
	switch {
	case !ok || cpu < last.cpu:
		seen[key] = sample{at: at, cpu: cpu}
		return nil
	case passed < steady:
		seen[key] = last
		return last.rate
	}
	rate := uint64(float64(cpu-last.cpu) / passed.Seconds())
	seen[key] = sample{at: at, cpu: cpu, rate: &rate}
	return &rate
}

func stamp(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }
