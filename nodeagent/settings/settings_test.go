package settings

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/writ-os/writ/schema/v1alpha1"
)

func full() *v1alpha1.NodePoolSpec {
	return &v1alpha1.NodePoolSpec{
		Sysctls:     map[string]string{"net.core.somaxconn": "8192", "kernel.pid_max": "32768", "net/ipv4/tcp_rmem": "4 5 6"},
		TimeServers: []string{"ntp.example.com", "192.0.2.1"},
		Registries:  []v1alpha1.NodeRegistry{{Host: "docker.io", Mirrors: []string{"https://mirror.example.com"}}},
	}
}

const inForce = "True Applied: the settings of NodePool workers are in force"

// A pool comes, changes and goes while the agent runs.
func TestLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := plain(t)
		w.life(func(s *Settings) {
			pass(10 * time.Minute)
			w.expect("a node in no pool says", w.says(), "")
			if names, _ := filepath.Glob(filepath.Join(w.dir, "record", "*")); len(names) > 0 {
				t.Errorf("written for nothing: %q", names)
			}
			w.pool(&v1alpha1.NodePoolSpec{})
			pass(time.Second)
			w.expect("a pool without settings", w.says(), "")

			w.pool(full())
			pass(time.Second)
			w.expect("condition", w.says(), inForce)
			w.expect("somaxconn", w.read("net/core/somaxconn"), "8192")
			w.expect("tcp_rmem", w.read("net/ipv4/tcp_rmem"), "4 5 6")
			w.expect("servers", w.servers(), "# Written by writ: the time servers of this node's NodePool.\n[Time]\nNTP=\nNTP=ntp.example.com 192.0.2.1\n")
			w.expect("mirrors", fmt.Sprint(s.Mirrors("docker.io"), s.Mirrors("quay.io")), "[https://mirror.example.com] []")
			w.expect("restarts", fmt.Sprint(w.restarts), "[systemd-timesyncd.service]")

			w.write("sys/net/core/somaxconn", "128\n") // somebody else
			pass(2 * look)
			w.expect("somaxconn after somebody else", w.read("net/core/somaxconn"), "8192")

			spec := full()
			spec.TimeServers, spec.Registries, spec.Sysctls = nil, nil, map[string]string{"vm.swappiness": "10", "net.core.somaxconn": "9000"}
			w.pool(spec)
			pass(time.Second)
			w.expect("condition", w.says(), inForce)
			w.expect("swappiness", w.read("vm/swappiness"), "10")
			w.expect("somaxconn", w.read("net/core/somaxconn"), "9000")
			w.expect("tcp_rmem taken back", w.read("net/ipv4/tcp_rmem"), "1 2 3")
			w.expect("servers", w.servers(), "")
			w.expect("mirrors", fmt.Sprint(s.Mirrors("docker.io")), "[]")
			w.expect("restarts", fmt.Sprint(len(w.restarts)), "2")

			w.pool(nil)
			pass(time.Second)
			w.original()
			w.expect("condition", w.says(), "True NoSettings: no pool says anything of this node's settings")
			writes := w.api.Writes()
			pass(time.Hour)
			if w.api.Writes() != writes {
				t.Error("an idle node reports")
			}
		})
	})
}

// original says what is not as it was.
func (w *world) original() {
	w.t.Helper()
	for at, v := range map[string]string{"net/core/somaxconn": "4096", "kernel/pid_max": "32768", "vm/swappiness": "60", "net/ipv4/tcp_rmem": "1 2 3"} {
		w.expect(at, w.read(at), v)
	}
	w.expect("time servers", w.servers(), "")
}

// What cannot be done is said, tried again, and holds up nothing.
func TestTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := plain(t)
		w.bad.Store(true)
		spec := full()
		spec.Sysctls["net.none"] = "1"
		spec.Sysctls["net.ipv4.ip_forward"] = "0"
		w.pool(spec)
		w.life(func(*Settings) {
			pass(time.Minute)
			w.expect("condition", w.says(), "False NotApplied: NodePool workers: sysctl net.ipv4.ip_forward: is the node agent's to set: the node routes between its pods and others; "+
				"sysctl net.none: this kernel has no such parameter; restart systemd-timesyncd.service: no")
			w.expect("somaxconn", w.read("net/core/somaxconn"), "8192")
			w.write("sys/net/none", "0\n")
			w.bad.Store(false)
			pass(2 * retryLast)
			w.expect("condition", w.says(), "False NotApplied: NodePool workers: sysctl net.ipv4.ip_forward: is the node agent's to set: the node routes between its pods and others")
			w.expect("what came late", w.read("net/none"), "1")
			if err := os.Remove(filepath.Join(w.sysctls, "net/none")); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(filepath.Join(w.dir, "run", timesyncState)); err != nil {
				t.Fatal(err)
			}
			delete(spec.Sysctls, "net.ipv4.ip_forward")
			delete(spec.Sysctls, "net.none")
			spec.TimeServers = []string{"other"}
			w.pool(spec)
			pass(time.Second)
			w.expect("condition", w.says(), "False NotApplied: NodePool workers: time servers: this machine does not keep its time by systemd-timesyncd")
			w.pool(nil)
			pass(time.Second)
			w.original()
		})
	})
}

// The agent is killed before each of its writes, once while a pool comes and
// once while it goes. The next one finishes what it has begun.
func TestKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, leaving := range []bool{false, true} {
			for n := 0; ; n++ {
				w := plain(t)
				w.pool(full())
				if leaving {
					w.life(func(*Settings) {})
					w.pool(nil)
				}
				w.left = n
				w.life(func(*Settings) { pass(time.Second) })
				killed := w.left == 0
				w.left = -1
				if !leaving {
					w.life(func(*Settings) { pass(time.Second) })
					w.expect("somaxconn", w.read("net/core/somaxconn"), "8192")
					w.expect("condition", w.says(), inForce)
					w.pool(nil)
				}
				w.life(func(*Settings) { pass(time.Second) })
				w.original()
				if t.Failed() {
					t.Fatalf("killed before write %d, leaving %v", n, leaving)
				}
				if !killed {
					if n < 4 {
						t.Fatalf("%d writes only", n)
					}
					break
				}
			}
		}
	})
}

// Another start of the machine has values of its own, and while no server
// answers, the settings of the last time.
func TestReboot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := plain(t)
		w.pool(full())
		w.life(func(*Settings) {})
		w.boot = "second"
		w.write("sys/net/core/somaxconn", "512\n")
		if err := os.Remove(filepath.Join(w.dir, "run", timesyncDropIn)); err != nil {
			t.Fatal(err)
		}
		s := w.settings()
		if err := s.Load(); err != nil {
			t.Fatal(err)
		}
		if got := s.Mirrors("docker.io"); !slices.Equal(got, []string{"https://mirror.example.com"}) {
			t.Errorf("mirrors before the server answers: %q", got)
		}
		s.turn(t.Context())
		w.expect("somaxconn before the server answers", w.read("net/core/somaxconn"), "8192")
		if !strings.Contains(w.servers(), "192.0.2.1") || len(w.restarts) != 2 {
			t.Errorf("servers %q, restarts %q", w.servers(), w.restarts)
		}
		w.pool(nil)
		w.life(func(*Settings) {})
		w.expect("somaxconn", w.read("net/core/somaxconn"), "512")
	})
}

// A disk that takes no record ends nothing, and nothing is set that could not be
// given back.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := plain(t)
		full, dir := full(), filepath.Join(w.dir, "record", recordFile)
		if err := os.MkdirAll(dir, 0o700); err != nil { // no file can take its place
			t.Fatal(err)
		}
		w.pool(full)
		w.life(func(s *Settings) {
			pass(time.Minute)
			if got := w.says(); !strings.HasPrefix(got, "False NotApplied: NodePool workers: write record of settings: ") {
				t.Error(got)
			}
			w.original()
			w.expect("mirrors", fmt.Sprint(s.Mirrors("docker.io")), "[https://mirror.example.com]")
			if err := os.Remove(dir); err != nil {
				t.Fatal(err)
			}
			pass(retryLast)
			w.expect("condition", w.says(), inForce)
			w.pool(nil)
			pass(time.Second)
			w.original()
		})
	})
}

func TestDamagedRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := plain(t)
		w.write("record/"+recordFile, "{")
		w.pool(full())
		w.life(func(*Settings) {})
		w.expect("condition", w.says(), inForce)
		w.pool(nil)
		w.life(func(*Settings) {})
		w.original()
	})
}

// The kernel's own sysctls, those of a network namespace.
func TestKernel(t *testing.T) {
	if os.Getenv(inside) == "" {
		t.Skip("not root")
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sysctls = "/proc/sys"
		if err := os.MkdirAll(filepath.Join(w.dir, "run"), 0o700); err != nil {
			t.Fatal(err)
		}
		names := []string{"net/ipv4/ip_local_port_range", "net/ipv4/tcp_keepalive_time", "net/ipv4/conf/lo/rp_filter", "net/ipv4/tcp_rmem"}
		before := map[string]string{}
		for _, at := range names {
			before[at] = w.read(at)
		}
		w.pool(&v1alpha1.NodePoolSpec{Sysctls: map[string]string{
			"net.ipv4.ip_local_port_range": "20000 30000", "net.ipv4.tcp_keepalive_time": "77", "net/ipv4/conf/lo/rp_filter": "1", "net.ipv4.tcp_rmem": "4096 131072 6291456",
			"net.ipv4.tcp_fin_timeout": "many", "net.ipv4.no_such": "1", "net.ipv4.conf": "1",
		}})
		w.life(func(*Settings) {
			pass(time.Second)
			for at, want := range map[string]string{names[0]: "20000 30000", names[1]: "77", names[2]: "1", names[3]: "4096 131072 6291456"} {
				w.expect(at, w.read(at), want)
			}
			got := w.says()
			for _, want := range []string{`sysctl net.ipv4.tcp_fin_timeout: the kernel refuses the value "many"`, "sysctl net.ipv4.no_such: this kernel has no such parameter", "sysctl net.ipv4.conf: "} {
				if !strings.Contains(got, want) {
					t.Errorf("%s lacks %q", got, want)
				}
			}
		})
		w.pool(nil)
		w.life(func(*Settings) {})
		for _, at := range names {
			w.expect(at, w.read(at), before[at])
		}
	})
}
