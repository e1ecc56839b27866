package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Usage is what a group has used and uses.
type Usage struct {
	CPU                     time.Duration
	Memory, WorkingSet, RSS uint64
	Pids                    uint64
}

// Usage measures a group with those below it.
func (m *Manager) Usage(group string) (Usage, error) {
	if m.mode == V2 {
		return m.usageV2(filepath.Join(m.root, group))
	}
	return m.usageV1(group)
}

func (m *Manager) usageV1(group string) (Usage, error) {
	var u Usage
	cpu, err := readUint(filepath.Join(m.root, "cpuacct", group, "cpuacct.usage"))
	if err != nil {
		return u, fmt.Errorf("measure cgroup %s: %w", group, err)
	}
	u.CPU = time.Duration(cpu)
	dir := filepath.Join(m.root, "memory", group)
	if u.Memory, err = readUint(filepath.Join(dir, "memory.usage_in_bytes")); err != nil {
		return u, fmt.Errorf("measure cgroup %s: %w", group, err)
	}
	stat := readStat(filepath.Join(dir, "memory.stat"))
	u.RSS = stat["total_rss"]
	u.WorkingSet = u.Memory - min(u.Memory, stat["total_inactive_file"])
	u.Pids, _ = readUint(filepath.Join(m.root, "pids", group, "pids.current"))
	return u, nil
}

func (m *Manager) usageV2(dir string) (Usage, error) {
	var u Usage
	cpu := readStat(filepath.Join(dir, "cpu.stat"))
	u.CPU = time.Duration(cpu["usage_usec"]) * time.Microsecond
	var err error
	if u.Memory, err = readUint(filepath.Join(dir, "memory.current")); err != nil {
		return u, fmt.Errorf("measure cgroup %s: %w", dir, err)
	}
	stat := readStat(filepath.Join(dir, "memory.stat"))
	u.RSS = stat["anon"]
	u.WorkingSet = u.Memory - min(u.Memory, stat["inactive_file"])
	u.Pids, _ = readUint(filepath.Join(dir, "pids.current"))
	return u, nil
}

func readUint(path string) (uint64, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
}

// readStat reads a file of "name value" lines. What cannot be read is 0.
func readStat(path string) map[string]uint64 {
	out := map[string]uint64{}
	b, err := os.ReadFile(path)
	if err != nil {
		return out
	}
	for _, line := range strings.Split(string(b), "\n") {
		if name, v, ok := strings.Cut(line, " "); ok {
			if n, err := strconv.ParseUint(v, 10, 64); err == nil {
				out[name] = n
			}
		}
	}
	return out
}
