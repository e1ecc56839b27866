package stats

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/writ-os/writ/nodeagent/runtime"
)

// node measures the machine by /proc: the root control group has no memory
// figures on cgroup v2.
func (c *Collector) node(seen map[string]sample) statsapi.NodeStats {
	now := c.cfg.Now()
	out := statsapi.NodeStats{NodeName: c.cfg.NodeName, StartTime: stamp(c.start)}
	mem := memInfo(c.read("meminfo"))
	used := mem["MemTotal"] - min(mem["MemTotal"], mem["MemFree"])
	set := used - min(used, mem["Inactive(file)"])
	st := runtime.Stats{Time: now, CPU: cpuTime(c.read("stat")), Memory: used, WorkingSet: set, RSS: mem["AnonPages"]}
	out.CPU, out.Memory = c.usage("node", st, seen)
	out.Memory.AvailableBytes = new(mem["MemTotal"] - set)
	out.Network = networkOf(c.read("net/dev"), metav1.NewTime(now))
	out.Rlimit = c.limits(now)
	if out.Fs = fileSystem(c.cfg.Dir, now); out.Fs != nil {
		out.Runtime = &statsapi.RuntimeStats{ImageFs: out.Fs, ContainerFs: out.Fs}
	}
	return out
}

func (c *Collector) read(name string) []byte {
	b, _ := os.ReadFile(filepath.Join(c.cfg.Proc, name)) // what is missing is 0
	return b
}

// network measures the interfaces that a process sees.
func (c *Collector) network(pid int) *statsapi.NetworkStats {
	return networkOf(c.read(strconv.Itoa(pid)+"/net/dev"), metav1.NewTime(c.cfg.Now()))
}

// limits says how many processes there may be, and are.
func (c *Collector) limits(now time.Time) *statsapi.RlimitStats {
	most, err := strconv.ParseInt(strings.TrimSpace(string(c.read("sys/kernel/pid_max"))), 10, 64)
	f := strings.Fields(string(c.read("loadavg")))
	if err != nil || len(f) < 4 {
		return nil
	}
	_, all, _ := strings.Cut(f[3], "/")
	n, err := strconv.ParseInt(all, 10, 64)
	if err != nil {
		return nil
	}
	return &statsapi.RlimitStats{Time: metav1.NewTime(now), MaxPID: &most, NumOfRunningProcesses: &n}
}

// cpuTime is the time that all processors were busy, from /proc/stat, whose
// unit is a hundredth of a second: user, nice, system, (idle, iowait,) irq,
// softirq, steal.
func cpuTime(stat []byte) time.Duration {
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	f := strings.Fields(string(line))
	var sum uint64
	for i, s := range f {
		if i == 0 || i == 4 || i == 5 || i > 8 {
			continue
		}
		n, _ := strconv.ParseUint(s, 10, 64)
		sum += n
	}
	return time.Duration(sum) * 10 * time.Millisecond
}

// memInfo reads the bytes of /proc/meminfo, which are in units of 1024.
func memInfo(b []byte) map[string]uint64 {
	out := map[string]uint64{}
	for line := range strings.Lines(string(b)) {
		name, rest, _ := strings.Cut(line, ":")
		if f := strings.Fields(rest); len(f) > 0 {
			n, _ := strconv.ParseUint(f[0], 10, 64)
			out[name] = n << 10
		}
	}
	return out
}

// defaultInterface is the one whose figures stand for the whole.
const defaultInterface = "eth0"

// networkOf reads /proc/net/dev. The loopback interface does not count.
func networkOf(b []byte, at metav1.Time) *statsapi.NetworkStats {
	out := &statsapi.NetworkStats{Time: at}
	sc := bufio.NewScanner(bytes.NewReader(b))
	for sc.Scan() {
		name, rest, ok := strings.Cut(sc.Text(), ":")
		f := strings.Fields(rest)
		if name = strings.TrimSpace(name); !ok || len(f) < 16 || name == "lo" {
			continue
		}
		var n [16]uint64
		for i := range n {
			n[i], _ = strconv.ParseUint(f[i], 10, 64)
		}
		i := statsapi.InterfaceStats{Name: name, RxBytes: &n[0], RxErrors: &n[2], TxBytes: &n[8], TxErrors: &n[10]}
		if name == defaultInterface {
			out.InterfaceStats = i
		}
		out.Interfaces = append(out.Interfaces, i)
	}
	if len(out.Interfaces) == 0 {
		return nil
	}
	return out
}

// fileSystem measures the file system of a directory.
func fileSystem(dir string, now time.Time) *statsapi.FsStats {
	var st unix.Statfs_t
	if dir == "" || unix.Statfs(dir, &st) != nil {
		return nil
	}
	blocks := func(n uint64) *uint64 { return new(n * uint64(st.Bsize)) }
	return &statsapi.FsStats{
		Time: metav1.NewTime(now), AvailableBytes: blocks(st.Bavail), CapacityBytes: blocks(st.Blocks),
		UsedBytes: blocks(st.Blocks - st.Bfree), Inodes: new(st.Files), InodesFree: new(st.Ffree), InodesUsed: new(st.Files - st.Ffree),
	}
}
