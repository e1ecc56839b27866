package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attack is what a child tries that runs what an enemy wrote.
type attack struct {
	How, Where string
	PID        int
}

// done is the answer of an attack that has come through.
const done = "DONE"

func (a attack) try() string {
	err := attacks[a.How](a)
	if err == nil {
		return done
	}
	return err.Error()
}

var attacks = map[string]func(attack) error{
	"connect tcp":      dial("tcp"),
	"connect udp":      dial("udp"),
	"connect unix":     dial("unix"),
	"connect abstract": dial("unix"),
	"raw socket": func(attack) error {
		_, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)
		return err
	},
	"netlink socket": func(attack) error {
		_, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)
		return err
	},
	"socket pair": func(attack) error {
		_, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		return err
	},
	"read /etc/passwd": func(attack) error { _, err := os.ReadFile("/etc/passwd"); return err },
	"read data":        func(a attack) error { _, err := os.ReadFile(a.Where); return err },
	"list data":        func(a attack) error { _, err := os.ReadDir(filepath.Dir(a.Where)); return err },
	"look at data":     func(a attack) error { _, err := os.Stat(a.Where); return err },
	"write data":       func(a attack) error { return os.WriteFile(a.Where, []byte("x"), 0o600) },
	"write /tmp":       func(attack) error { return os.WriteFile("/tmp/sandbox-attack", []byte("x"), 0o600) },
	"remove data":      func(a attack) error { return os.Remove(a.Where) },
	"memory file": func(attack) error {
		_, err := unix.MemfdCreate("x", 0)
		return err
	},
	"shared memory": func(attack) error {
		_, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
		return err
	},
	"run memory": func(attack) error {
		_, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
		return err
	},
	"exec":        func(attack) error { return exec.Command("/bin/true").Run() },
	"exec itself": func(attack) error { return syscall.Exec("/proc/self/exe", []string{"x", "-test.run=^$"}, nil) },
	"fork": func(attack) error {
		pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if errno != 0 {
			return errno
		}
		if pid == 0 {
			unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
		}
		return nil
	},
	"ptrace server": func(a attack) error { return syscall.PtraceAttach(a.PID) },
	"kill server":   func(a attack) error { return unix.Kill(a.PID, unix.SIGURG) }, // the runtime takes no notice of it
	"kill all":      func(attack) error { return unix.Kill(-1, 0) },
	"server's memory": func(a attack) error {
		f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", a.PID), os.O_RDWR, 0)
		_ = f
		return err
	},
	"server's environ": func(a attack) error { _, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", a.PID)); return err },
	"server's files":   func(a attack) error { _, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", a.PID)); return err },
	"read server by pid": func(a attack) error {
		b := make([]byte, 8)
		_, err := unix.ProcessVMReadv(a.PID, []unix.Iovec{{Base: &b[0], Len: 8}}, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0)
		return err
	},
	"mount":          func(attack) error { return unix.Mount("none", "/tmp", "tmpfs", 0, "") },
	"new namespaces": func(attack) error { return unix.Unshare(unix.CLONE_NEWUSER | unix.CLONE_NEWNET) },
	"become root":    func(attack) error { return unix.Setresuid(0, 0, 0) },
	"raise a bound": func(attack) error {
		return unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY})
	},
	"load bpf": func(attack) error {
		_, _, errno := unix.Syscall(unix.SYS_BPF, 0, 0, 0)
		return asError(errno)
	},
	"io_uring": func(attack) error {
		var params [120]byte
		_, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(ptr(&params)), 0)
		return asError(errno)
	},
	"environment": func(attack) error {
		if env := os.Environ(); len(env) > 0 {
			return nil
		}
		return errors.New("is empty")
	},
	"inherited files": func(attack) error {
		for fd := 3; fd < 1024; fd++ {
			if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
				return nil
			}
		}
		return errors.New("there are none")
	},
}

func asError(errno syscall.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

func dial(network string) func(attack) error {
	return func(a attack) error {
		c, err := net.DialTimeout(network, a.Where, 5*time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err
	}
}

// TestAttacks: what a child tries is refused, by each layer that is meant to,
// also where the others are missing.
func TestAttacks(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	if err := os.WriteFile(data, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	where := map[string]string{"connect tcp": listen(t, "tcp", "127.0.0.1:0"), "connect unix": listen(t, "unix", filepath.Join(dir, "socket")),
		"connect abstract": listen(t, "unix", "@writ-sandbox-test-"+strconv.Itoa(os.Getpid()))}
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = udp.Close() })
	where["connect udp"] = udp.LocalAddr().String()
	// A file that whoever started the server left open.
	inherited, err := unix.Open("/etc/passwd", unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(inherited) })

	all := sandbox(t, Config{})
	columns := []*Sandbox{all, sandbox(t, Config{skip: []string{layerSeccomp}}), sandbox(t, Config{skip: []string{layerLandlock}}), sandbox(t, Config{skip: []string{layerSeccomp, layerLandlock}})}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "attempt\tall layers\twithout seccomp\twithout Landlock\twithout both")
	for _, how := range slices.Sorted(mapsKeys(attacks)) {
		row := []string{how}
		for _, s := range columns {
			a := attack{How: how, Where: data, PID: os.Getpid()}
			if at, ok := where[how]; ok {
				a.Where = at
			}
			got, err := Call(t.Context(), s, try, a, long)
			if err != nil {
				got = err.Error()
			}
			got = got[strings.LastIndex(got, ": ")+1:]
			if s == all && strings.TrimSpace(got) == done {
				t.Errorf("%s came through", how)
			}
			row = append(row, strings.TrimSpace(got))
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush()
	t.Logf("layers %+v\n%s", all.layers, b.String())
}

func mapsKeys(m map[string]func(attack) error) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func listen(t *testing.T, network, address string) string {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

func ptr[T any](v *T) unsafe.Pointer { return unsafe.Pointer(v) }
