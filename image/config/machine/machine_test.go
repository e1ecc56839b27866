package machine

import (
	"context"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const agentYAML = `role: agent
server: https://192.0.2.7:6443
token: abcdef.0123456789abcdef
`

// folders are disks that are folders.
type folders struct {
	esp string // "" for none

	mu       sync.Mutex
	volumes  map[string]string
	readOnly bool
}

func (f *folders) ESP(writable bool, do func(dir string) error) error {
	if f.esp == "" {
		return fs.ErrNotExist
	}
	if writable && f.readOnly {
		return errors.New("read-only file system")
	}
	return do(f.esp)
}

func (f *folders) Volumes() ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for name := range f.volumes {
		out = append(out, name)
	}
	return out, nil
}

func (f *folders) Volume(name string, do func(dir string) error) error {
	f.mu.Lock()
	dir := f.volumes[name]
	f.mu.Unlock()
	return do(dir)
}

func (f *folders) attach(t *testing.T, name, file, content string) {
	t.Helper()
	dir := t.TempDir()
	put(t, filepath.Join(dir, file), content)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.volumes[name] = dir
}

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(b)
}

// screen is a console that is read while it is written.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// bench is a machine in a folder.
type bench struct {
	Config
	disks   *folders
	console *screen
	name    string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{disks: &folders{esp: t.TempDir(), volumes: map[string]string{}}, console: &screen{}}
	b.Config = Config{Root: t.TempDir(), Disks: b.disks, Console: b.console, SetHostname: func(n string) error { b.name = n; return nil }}
	put(t, b.Root+"/etc/machine-id", "0123456789abcdef0123456789abcdef\n")
	put(t, b.Root+"/proc/cmdline", "roothash=00 quiet\n")
	put(t, b.Root+"/var/lib/.keep", "")
	return b
}

// TestESP takes the file of the EFI system partition, keeps it, and erases what
// is secret; the next start needs nothing but /var.
func TestESP(t *testing.T) {
	b := newBench(t)
	put(t, b.disks.esp+"/writ/node.yaml", agentYAML)
	if err := New(b.Config).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := get(t, b.Root+"/var/lib/writ/node.yaml"); got != agentYAML {
		t.Errorf("kept: %q", got)
	}
	if got := get(t, b.disks.esp+"/writ/node.yaml"); strings.Contains(got, "abcdef") || !strings.Contains(got, "role: agent") {
		t.Errorf("on the ESP: %q", got)
	}
	if got := get(t, b.Root+"/run/writ/agent.env"); !strings.Contains(got, "WRIT_TOKEN=\"abcdef.0123456789abcdef\"\n") {
		t.Errorf("agent.env: %q", got)
	}
	for _, path := range []string{"/run/writ/agent.env", "/var/lib/writ/node.yaml"} {
		if info, err := os.Stat(b.Root + path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if !strings.Contains(b.console.String(), "a node of the cluster at https://192.0.2.7:6443") || strings.Contains(b.console.String(), "abcdef") {
		t.Errorf("console: %s", b.console)
	}
	first := b.name
	if !strings.HasPrefix(first, "writ-") {
		t.Errorf("name %q", first)
	}
	b.disks.esp = ""
	put(t, b.Root+"/etc/machine-id", "ffffffffffffffffffffffffffffffff\n")
	if err := New(b.Config).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b.name != first {
		t.Errorf("the name changes from %q to %q", first, b.name)
	}
}

// TestESPThatCannotBeErased starts all the same, and says so.
func TestESPThatCannotBeErased(t *testing.T) {
	b := newBench(t)
	b.disks.readOnly = true
	put(t, b.disks.esp+"/writ/node.yaml", agentYAML)
	if err := New(b.Config).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.console.String(), "are still there: read-only file system") {
		t.Errorf("console: %s", b.console)
	}
	b.disks.readOnly = false
	if err := New(b.Config).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := get(t, b.disks.esp+"/writ/node.yaml"); strings.Contains(got, "abcdef") {
		t.Errorf("on the ESP: %q", got)
	}
}

// TestVarThatCannotBeWritten erases nothing, and tries again.
func TestVarThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		put(t, b.disks.esp+"/writ/node.yaml", agentYAML)
		put(t, b.Root+"/var/lib/writ", "a file in the way")
		done := make(chan error, 1)
		go func() { done <- New(b.Config).Run(t.Context()) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := get(t, b.disks.esp+"/writ/node.yaml"); got != agentYAML {
			t.Errorf("on the ESP: %q", got)
		}
		if n := strings.Count(b.console.String(), "this machine cannot keep it"); n != 1 {
			t.Errorf("said %d times: %s", n, b.console)
		}
		if err := os.Remove(b.Root + "/var/lib/writ"); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if got := get(t, b.Root+"/var/lib/writ/node.yaml"); got != agentYAML {
			t.Errorf("kept: %q", got)
		}
	})
}

// TestPlain keeps nothing, and starts nothing, where /var is not what it was
// asked to be.
func TestPlain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var encrypted bool
		b.Encrypted = func() (bool, error) { return encrypted, nil }
		put(t, b.disks.esp+"/writ/node.yaml", "role: server\nencryption: {recoveryKey: "+strings.Repeat("k", 32)+"}\n")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := New(b.Config).Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it goes on: %v", err)
		}
		if !strings.Contains(b.console.String(), "asks for a /var that is encrypted; that of this machine") {
			t.Errorf("console: %s", b.console)
		}
		if got := get(t, b.Root+"/var/lib/writ/node.yaml"); got != "" {
			t.Errorf("the secret is kept in a plain /var: %q", got)
		}
		encrypted = true
		if err := New(b.Config).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := get(t, b.disks.esp+"/writ/node.yaml"); strings.Contains(got, "kkkk") {
			t.Errorf("on the ESP: %q", got)
		}
	})
}

// TestWaits waits for a volume, and for a good one.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		done := make(chan error, 1)
		go func() { done <- New(b.Config).Run(t.Context()) }()
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := strings.Count(b.console.String(), "does not know who it is"); n != 1 {
			t.Errorf("said %d times", n)
		}
		b.disks.attach(t, "config /dev/sda1 7", "node.yaml", "role: sever\n")
		time.Sleep(time.Minute)
		synctest.Wait()
		if !strings.Contains(b.console.String(), `node.yaml:1:7: role: must be server or agent, is "sever"`) {
			t.Errorf("console: %s", b.console)
		}
		select {
		case err := <-done:
			t.Fatalf("ended: %v", err)
		default:
		}
		b.disks.mu.Lock()
		delete(b.disks.volumes, "config /dev/sda1 7")
		b.disks.mu.Unlock()
		b.disks.attach(t, "cidata /dev/sda1 8", "user-data", "role: server\nnodeName: one\n")
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if b.name != "one" || get(t, b.Root+"/run/writ/server.env") == "" {
			t.Errorf("name %q", b.name)
		}
	})
}

func TestOtherSources(t *testing.T) {
	b := newBench(t)
	b.disks.esp = ""
	put(t, b.Root+"/proc/cmdline", "quiet writ.config="+base64.StdEncoding.EncodeToString([]byte("role: server\nnodeName: line\n"))+"\n")
	if err := New(b.Config).Run(t.Context()); err != nil || b.name != "line" {
		t.Errorf("%q, %v", b.name, err)
	}
	b = newBench(t)
	put(t, b.Root+"/opt/n.yaml", "role: server\nnodeName: path\n")
	put(t, b.Root+"/proc/cmdline", "writ.config=/opt/n.yaml")
	if err := New(b.Config).Run(t.Context()); err != nil || b.name != "path" {
		t.Errorf("%q, %v", b.name, err)
	}
	b = newBench(t)
	b.Credentials = t.TempDir()
	put(t, b.Credentials+"/node.config", "role: server\nnodeName: credential\n")
	put(t, b.disks.esp+"/writ/node.yaml", "role: server\nnodeName: esp\n")
	if err := New(b.Config).Run(t.Context()); err != nil || b.name != "credential" {
		t.Errorf("%q, %v", b.name, err)
	}
	if !strings.Contains(b.console.String(), "EFI system partition says something else and does not count") {
		t.Errorf("console: %s", b.console)
	}
}

// TestLinksAreNotFollowed reads nothing of the machine for a stick.
func TestLinksAreNotFollowed(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	put(t, secret, "role: server\n")
	dir := t.TempDir()
	if err := os.Symlink(secret, filepath.Join(dir, "node.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := read(dir, "node.yaml"); err == nil {
		t.Error("a link out of the volume is followed")
	}
	if _, err := read(dir, "../secret"); err == nil {
		t.Error("a path out of the volume is followed")
	}
}

func TestESPDevice(t *testing.T) {
	sys, real := t.TempDir(), t.TempDir()
	for disk, parts := range map[string]map[string]string{"vda": {"vda1": "ESP", "vda2": "root_1", "vda3": "verity_1"}, "sdb": {"sdb1": "ESP"}} {
		for part, name := range parts {
			put(t, filepath.Join(real, disk, part, "uevent"), "DEVTYPE=partition\nPARTNAME="+name+"\n")
		}
	}
	slaves := filepath.Join(sys, "dm-0", "slaves")
	if err := errors.Join(os.MkdirAll(slaves, 0o755), os.Symlink(filepath.Join(real, "vda", "vda2"), filepath.Join(slaves, "vda2"))); err != nil {
		t.Fatal(err)
	}
	if got, err := espDevice(sys); err != nil || got != "/dev/vda1" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := espDevice(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a disk: %v", err)
	}
}
