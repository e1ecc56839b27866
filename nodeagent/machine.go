package nodeagent

import (
	"os"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/writ-os/writ/nodeagent/twin"
)

// machine is what the node's hardware and system are. It is read once.
type machine struct {
	cpus   int64
	memory int64
	disk   int64
	info   corev1.NodeSystemInfo
	extra  corev1.ResourceList
}

func readMachine(cfg Config) machine {
	m := machine{cpus: int64(goruntime.NumCPU()), memory: memTotal(), extra: cfg.Capacity}
	var st unix.Statfs_t
	if cfg.DataDir != "" && unix.Statfs(existing(cfg.DataDir), &st) == nil {
		m.disk = int64(st.Blocks) * st.Bsize
	}
	me := cfg.Machine
	if me == (twin.Machine{}) {
		me = twin.This()
	}
	m.info = corev1.NodeSystemInfo{
		MachineID:        me.ID,
		SystemUUID:       me.UUID,
		BootID:           firstLine("/proc/sys/kernel/random/boot_id"),
		KernelVersion:    firstLine("/proc/sys/kernel/osrelease"),
		OSImage:          osImage(),
		KubeletVersion:   KubernetesVersion + suffix(cfg.Version),
		KubeProxyVersion: "",
		OperatingSystem:  "linux",
		Architecture:     goruntime.GOARCH,
	}
	return m
}

// identity is what tells this machine from another one of its name.
func (m *machine) identity() twin.Machine {
	return twin.Machine{ID: m.info.MachineID, UUID: m.info.SystemUUID}
}

// KubernetesVersion is the level of the API that the agent speaks.
const KubernetesVersion = "v1.36.4"

func suffix(version string) string {
	if version == "" {
		return ""
	}
	return "+writ-" + version
}

// existing returns the nearest directory above that exists.
func existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || dir == "/" || dir == "." {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

func firstLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(line)
}

func osImage() string {
	b, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "Linux"
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			return strings.Trim(v, `"`)
		}
	}
	return "Linux"
}

func memTotal() int64 {
	kb := procField("/proc/meminfo", "MemTotal:")
	return kb << 10
}

func procField(path, name string) int64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) > 1 && f[0] == name {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n
		}
	}
	return 0
}

// capacity is what the machine has.
func (m *machine) capacity() corev1.ResourceList {
	out := corev1.ResourceList{
		corev1.ResourceCPU:              quantity(m.cpus, resource.DecimalSI),
		corev1.ResourceMemory:           quantity(m.memory, resource.BinarySI),
		corev1.ResourceEphemeralStorage: quantity(m.disk, resource.BinarySI),
		corev1.ResourcePods:             quantity(maxPods, resource.DecimalSI),
	}
	for name, q := range m.extra {
		out[name] = q
	}
	return out
}

const (
	maxPods = 110
	// evictionMemory is kept free for the system, as the kubelet's default hard
	// eviction threshold does.
	evictionMemory = 100 << 20
)

// allocatable is what pods may have of it.
func (m *machine) allocatable() corev1.ResourceList {
	out := m.capacity()
	mem := out[corev1.ResourceMemory]
	if mem.Value() > evictionMemory {
		mem.Sub(quantity(evictionMemory, resource.BinarySI))
		out[corev1.ResourceMemory] = mem
	}
	disk := out[corev1.ResourceEphemeralStorage]
	out[corev1.ResourceEphemeralStorage] = quantity(disk.Value()/10*9, resource.BinarySI)
	return out
}

// pressure is what the machine is short of.
type pressure struct{ memory, disk, pids bool }

// readPressure compares with the kubelet's default hard eviction thresholds:
// 100 MiB of memory, a tenth of the disk, and a tenth of the process IDs.
func readPressure(dataDir string) pressure {
	var p pressure
	if kb := procField("/proc/meminfo", "MemAvailable:"); kb > 0 {
		p.memory = kb<<10 < evictionMemory
	}
	var st unix.Statfs_t
	if unix.Statfs(existing(dataDir), &st) == nil && st.Blocks > 0 {
		p.disk = st.Bavail*10 < st.Blocks
	}
	limit, _ := strconv.Atoi(firstLine("/proc/sys/kernel/pid_max"))
	if f := strings.Fields(firstLine("/proc/loadavg")); limit > 0 && len(f) > 3 {
		_, total, _ := strings.Cut(f[3], "/")
		n, _ := strconv.Atoi(total)
		p.pids = n*10 > limit*9
	}
	return p
}
