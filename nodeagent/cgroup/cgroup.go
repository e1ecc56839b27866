// Package cgroup keeps the control groups above containers: one for all pods,
// one per quality of service, one per pod. The containers' own are made below
// them by the runtime.
//
//	/kubepods                     all pods
//	/kubepods/pod<uid>            Guaranteed
//	/kubepods/burstable/pod<uid>
//	/kubepods/besteffort/pod<uid>
//
// It works on cgroup v1, on v2, and on hybrid machines, where the controllers
// are those of v1.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Mode is how the machine mounts its control groups.
type Mode string

// The modes of a machine.
const (
	V1     Mode = "v1"
	Hybrid Mode = "hybrid"
	V2     Mode = "v2"
)

// Resources are limits and weights of a group. Zero leaves what is there, -1
// takes a limit away.
type Resources struct {
	CPUShares uint64
	CPUQuota  int64 // microseconds per CPUPeriod; 0 is none
	CPUPeriod uint64
	Memory    int64
	Pids      int64
}

// Manager makes, limits and removes groups.
type Manager struct {
	root        string // of the mounts
	mode        Mode
	controllers []string // v1: those mounted; v2: those the root offers
	// others are hierarchies without controllers that runc makes groups in all
	// the same: systemd's own, and on hybrid machines that of v2.
	others []string

	mu sync.Mutex // QoS groups are shared by pods
}

// wanted are the controllers that pods need.
var wanted = []string{"cpu", "cpuacct", "cpuset", "memory", "pids", "blkio", "devices", "freezer", "hugetlb", "io"}

// New looks at what is mounted at root (default /sys/fs/cgroup).
func New(root string) (*Manager, error) {
	if root == "" {
		root = "/sys/fs/cgroup"
	}
	m := &Manager{root: root}
	if b, err := os.ReadFile(filepath.Join(root, "cgroup.controllers")); err == nil {
		m.mode = V2
		offered := strings.Fields(string(b))
		for _, c := range wanted {
			for _, o := range offered {
				if c == o {
					m.controllers = append(m.controllers, c)
				}
			}
		}
		return m, nil
	}
	m.mode = V1
	for _, c := range wanted {
		if isDir(filepath.Join(root, c)) {
			m.controllers = append(m.controllers, c)
		}
	}
	for _, h := range []string{"systemd", "unified"} {
		if isDir(filepath.Join(root, h)) {
			m.others = append(m.others, h)
		}
	}
	if isDir(filepath.Join(root, "unified")) {
		m.mode = Hybrid
	}
	if len(m.controllers) == 0 {
		return nil, fmt.Errorf("find cgroups at %s: no controller is mounted", root)
	}
	return m, nil
}

// Mode returns how the machine mounts its control groups.
func (m *Manager) Mode() Mode { return m.mode }

// Missing names the controllers that limits need and the machine lacks.
func (m *Manager) Missing() []string {
	var out []string
	for _, need := range []string{"cpu", "memory", "pids"} {
		if !m.has(need) {
			out = append(out, need)
		}
	}
	return out
}

func (m *Manager) has(controller string) bool {
	for _, c := range m.controllers {
		if c == controller {
			return true
		}
	}
	return false
}

// dirs returns the directories of a group, one per hierarchy.
func (m *Manager) dirs(group string) []string {
	if m.mode == V2 {
		return []string{filepath.Join(m.root, group)}
	}
	out := make([]string, 0, len(m.controllers))
	for _, c := range m.controllers {
		out = append(out, filepath.Join(m.root, c, group))
	}
	return out
}

// Ensure makes a group with those above it and sets its resources.
func (m *Manager) Ensure(group string, r Resources) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.make(group); err != nil {
		return fmt.Errorf("make cgroup %s: %w", group, err)
	}
	for _, w := range m.writes(r) {
		if !m.has(w.controller) {
			continue
		}
		dir := filepath.Join(m.root, group)
		if m.mode != V2 {
			dir = filepath.Join(m.root, w.controller, group)
		}
		if err := os.WriteFile(filepath.Join(dir, w.file), []byte(w.value), 0o644); err != nil {
			return fmt.Errorf("limit cgroup %s: %w", group, err)
		}
	}
	return nil
}

func (m *Manager) make(group string) error {
	if m.mode != V2 {
		for _, d := range m.dirs(group) {
			if err := os.MkdirAll(d, 0o755); err != nil {
				return err
			}
		}
		return nil
	}
	enable := "+" + strings.Join(m.controllers, " +")
	dir := m.root
	for _, part := range strings.Split(strings.Trim(group, "/"), "/") {
		// A group passes controllers on to those below it only when told so.
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte(enable), 0o644); err != nil {
			return err
		}
		dir = filepath.Join(dir, part)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte(enable), 0o644)
}

type write struct{ controller, file, value string }

// writes says which files set the resources.
func (m *Manager) writes(r Resources) []write {
	var out []write
	add := func(controller, v1, v2, value1, value2 string) {
		if m.mode == V2 {
			out = append(out, write{controller, v2, value2})
		} else {
			out = append(out, write{controller, v1, value1})
		}
	}
	if r.CPUShares > 0 {
		add("cpu", "cpu.shares", "cpu.weight", strconv.FormatUint(r.CPUShares, 10), strconv.FormatUint(Weight(r.CPUShares), 10))
	}
	if r.CPUQuota < 0 {
		add("cpu", "cpu.cfs_quota_us", "cpu.max", "-1", "max")
	}
	if r.CPUQuota > 0 {
		period := strconv.FormatUint(r.CPUPeriod, 10)
		quota := strconv.FormatInt(r.CPUQuota, 10)
		if m.mode == V2 {
			out = append(out, write{"cpu", "cpu.max", quota + " " + period})
		} else {
			out = append(out, write{"cpu", "cpu.cfs_period_us", period}, write{"cpu", "cpu.cfs_quota_us", quota})
		}
	}
	if r.Memory < 0 {
		add("memory", "memory.limit_in_bytes", "memory.max", "-1", "max")
	}
	if r.Memory > 0 {
		v := strconv.FormatInt(r.Memory, 10)
		add("memory", "memory.limit_in_bytes", "memory.max", v, v)
	}
	if r.Pids > 0 {
		v := strconv.FormatInt(r.Pids, 10)
		add("pids", "pids.max", "pids.max", v, v)
	}
	return out
}

// Weight converts v1 CPU shares to a v2 weight.
func Weight(shares uint64) uint64 {
	shares = min(max(shares, 2), 262144)
	return 1 + (shares-2)*9999/262142
}

// Remove removes a group and those below it. No process may be left in them.
func (m *Manager) Remove(group string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dirs := m.dirs(group)
	for _, h := range m.others {
		dirs = append(dirs, filepath.Join(m.root, h, group))
	}
	var errs []error
	for _, d := range dirs {
		errs = append(errs, removeTree(d))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove cgroup %s: %w", group, err)
	}
	return nil
}

// removeTree removes a directory of a cgroup file system, whose files cannot
// be removed, from the leaves up.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return nil
}

// OOMKills returns how often the kernel killed a process of a group for
// memory. A group that is gone has none.
func (m *Manager) OOMKills(group string) uint64 {
	path := filepath.Join(m.root, "memory", group, "memory.oom_control")
	if m.mode == V2 {
		path = filepath.Join(m.root, group, "memory.events")
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for _, line := range strings.Split(string(b), "\n") {
		if v, ok := strings.CutPrefix(line, "oom_kill "); ok {
			n, _ := strconv.ParseUint(v, 10, 64)
			return n
		}
	}
	return 0
}

func isDir(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.IsDir()
}
