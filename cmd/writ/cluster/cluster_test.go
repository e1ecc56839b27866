package cluster

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writ-os/writ/nodeagent/volume"
)

// One process holds a data directory; another is told who, and that it may
// have it when the first has ended.
func TestLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	release, err := lock(dir, ServerLock)
	if err != nil {
		t.Fatal(err)
	}
	if pid, err := Holder(dir, ServerLock); err != nil || pid != os.Getpid() {
		t.Errorf("holder is %d, %v; want %d", pid, err, os.Getpid())
	}
	if _, err := lock(dir, ServerLock); err == nil || !strings.Contains(err.Error(), "writ down") {
		t.Errorf("locked twice: %v", err)
	}
	if free, err := lock(dir, AgentLock); err != nil {
		t.Errorf("another lock of the same directory: %v", err)
	} else {
		free()
	}
	release()
	if pid, err := Holder(dir, ServerLock); err != nil || pid != 0 {
		t.Errorf("holder after release is %d, %v", pid, err)
	}
	if again, err := lock(dir, ServerLock); err != nil {
		t.Errorf("lock after release: %v", err)
	} else {
		again()
	}
}

func TestAddresses(t *testing.T) {
	for _, c := range []struct{ listen, server, advertised string }{
		{"127.0.0.1:6443", "https://127.0.0.1:6443", "10.244.0.1:6443"},
		{"0.0.0.0:7443", "https://127.0.0.1:7443", "10.244.0.1:7443"},
		{":6443", "https://127.0.0.1:6443", "10.244.0.1:6443"},
		{"192.0.2.7:6443", "https://192.0.2.7:6443", "192.0.2.7:6443"},
	} {
		cfg := Config{Listen: c.listen}
		if got := cfg.server(); got != c.server {
			t.Errorf("--listen %s: server is %s, want %s", c.listen, got, c.server)
		}
		if got := NewControlPlane(cfg).advertised().String(); got != c.advertised {
			t.Errorf("--listen %s: pods go to %s, want %s", c.listen, got, c.advertised)
		}
	}
}

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		listener, ip string
		want         bool
	}{
		{"127.0.0.1:6443", "10.244.0.1", false},
		{"0.0.0.0:6443", "10.244.0.1", true},
		{"[::]:6443", "10.244.0.1", true},
		{"192.0.2.7:6443", "192.0.2.7", true},
	} {
		a, err := net.ResolveTCPAddr("tcp", c.listener)
		if err != nil {
			t.Fatal(err)
		}
		if got := covers(a, netip.MustParseAddr(c.ip)); got != c.want {
			t.Errorf("%s covers %s: %v", c.listener, c.ip, got)
		}
	}
}

// A port can be opened before its address exists.
func TestFreebind(t *testing.T) {
	l, err := freebind(t.Context(), "192.0.2.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

func TestFieldManager(t *testing.T) {
	for user, want := range map[string]string{
		"system:writ:reconciler": "reconciler", "system:kube-scheduler": "kube-scheduler", "system:kube-controller-manager": "kube-controller-manager", "jane": "jane",
	} {
		if got := fieldManager(user); got != want {
			t.Errorf("fieldManager(%s) = %s, want %s", user, got, want)
		}
	}
}

// What a volume of a pod leaves behind is found below the node's folder only.
func TestUnmountBelowNothing(t *testing.T) {
	if err := volume.UnmountBelow(t.TempDir()); err != nil {
		t.Error(err)
	}
}
