package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree makes the mounts of a machine.
func tree(t *testing.T, dirs []string, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for _, d := range dirs {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func file(t *testing.T, parts ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		return "none"
	}
	return string(b)
}

var limits = Resources{CPUShares: 512, CPUQuota: 50000, CPUPeriod: 100000, Memory: 1 << 30, Pids: 100}

func TestV1AndHybrid(t *testing.T) {
	dirs := []string{"cpu", "memory", "systemd"}
	for mode, extra := range map[Mode][]string{V1: nil, Hybrid: {"unified"}} {
		root := tree(t, append(dirs, extra...), nil)
		m, err := New(root)
		if err != nil || m.Mode() != mode {
			t.Fatalf("%v, %v, want %s", m, err, mode)
		}
		if got := strings.Join(m.Missing(), " "); got != "pids" {
			t.Errorf("missing: %s", got)
		}
		if err := m.Ensure("/kubepods/podx", limits); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{
			"cpu/kubepods/podx/cpu.shares": "512", "cpu/kubepods/podx/cpu.cfs_quota_us": "50000", "cpu/kubepods/podx/cpu.cfs_period_us": "100000",
			"memory/kubepods/podx/memory.limit_in_bytes": "1073741824", "pids/kubepods/podx/pids.max": "none",
		} {
			if got := file(t, root, name); got != want {
				t.Errorf("%s: %s: %s, want %s", mode, name, got, want)
			}
		}
	}
}

func TestV2(t *testing.T) {
	root := tree(t, nil, map[string]string{"cgroup.controllers": "cpuset cpu io memory hugetlb pids rdma"})
	m, err := New(root)
	if err != nil || m.Mode() != V2 || len(m.Missing()) != 0 {
		t.Fatalf("%+v, %v", m, err)
	}
	if err := m.Ensure("/kubepods/burstable/podx", limits); err != nil {
		t.Fatal(err)
	}
	pod := "kubepods/burstable/podx"
	for name, want := range map[string]string{
		pod + "/cpu.weight": "20", pod + "/cpu.max": "50000 100000", pod + "/memory.max": "1073741824", pod + "/pids.max": "100",
		"cgroup.subtree_control": "+cpu +cpuset +memory +pids +hugetlb +io", pod + "/cgroup.subtree_control": "+cpu +cpuset +memory +pids +hugetlb +io",
	} {
		if got := file(t, root, name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if err := os.WriteFile(filepath.Join(root, pod, "memory.events"), []byte("low 0\noom 3\noom_kill 2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if n := m.OOMKills("/" + pod); n != 2 {
		t.Errorf("oom kills: %d", n)
	}
}

func TestNothingMounted(t *testing.T) {
	if m, err := New(t.TempDir()); err == nil {
		t.Errorf("found %+v", m)
	}
}

func TestWeight(t *testing.T) {
	for shares, want := range map[uint64]uint64{0: 1, 2: 1, 1024: 39, 262144: 10000, 1 << 40: 10000} {
		if got := Weight(shares); got != want {
			t.Errorf("Weight(%d) = %d, want %d", shares, got, want)
		}
	}
}

// The machine's own control groups: made, limited, measured, removed.
func TestThisMachine(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root")
	}
	m, err := New("")
	if err != nil {
		t.Skip(err)
	}
	group := "/writ-cgroup-test"
	if err := m.Ensure(group+"/burstable/podx", Resources{CPUShares: 512, Memory: 64 << 20}); err != nil {
		t.Fatal(err)
	}
	for _, d := range m.dirs(group + "/burstable") {
		if _, err := os.Stat(filepath.Join(d, "podx")); err != nil {
			t.Error(err)
		}
	}
	if _, err := m.Usage(group + "/burstable/podx"); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := m.Remove(group); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range m.dirs(group) {
		if _, err := os.Stat(d); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("left behind: %s, %v", d, err)
		}
	}
}
