package settings

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/nodeagent/settings/disk"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// world is a machine, and the server that it asks.
type world struct {
	t        *testing.T
	api      *client.Fake
	dir      string // of all below
	sysctls  string
	boot     string
	restarts []string
	bad      atomic.Bool // units do not start
	disks    disk.Machine
	// left is how many more writes there are until the agent does nothing more, as
	// one that is killed; -1 is never.
	left int
	end  <-chan struct{} // of the agent
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, api: client.NewFake(), dir: t.TempDir(), boot: "first", left: -1}
	w.sysctls = filepath.Join(w.dir, "sys")
	w.api.Put(&corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"pool": "workers"}}})
	return w
}

// plain makes sysctls of plain files, and a machine with timesyncd.
func plain(t *testing.T) *world {
	w := newWorld(t)
	for at, v := range map[string]string{"net/core/somaxconn": "4096", "kernel/pid_max": "32768", "vm/swappiness": "60", "net/ipv4/tcp_rmem": "1\t2\t3"} {
		w.write("sys/"+at, v+"\n")
	}
	if err := os.MkdirAll(filepath.Join(w.dir, "run", timesyncState), 0o700); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// read is a sysctl's value.
func (w *world) read(at string) string {
	w.t.Helper()
	r := sysctls{w.sysctls}.read(at)
	if r.Err != nil {
		w.t.Fatal(r.Err)
	}
	return strings.Join(strings.Fields(r.Value), " ")
}

func (w *world) servers() string {
	t, err := readTime(filepath.Join(w.dir, "run"))
	if err != nil {
		w.t.Fatal(err)
	}
	return t.Servers
}

// pool declares the pool of the node; nil deletes it.
func (w *world) pool(spec *v1alpha1.NodePoolSpec) {
	w.t.Helper()
	if spec == nil {
		if err := w.api.Delete(w.t.Context(), schema.ResourceFor[*v1alpha1.NodePool](), schema.Key{Name: "workers"}, client.DeleteOptions{}); err != nil {
			w.t.Fatal(err)
		}
		return
	}
	spec = spec.DeepCopy()
	spec.Selector = metav1.LabelSelector{MatchLabels: map[string]string{"pool": "workers"}}
	p := &v1alpha1.NodePool{TypeMeta: metav1.TypeMeta{APIVersion: "writ.dev/v1alpha1", Kind: "NodePool"}, ObjectMeta: metav1.ObjectMeta{Name: "workers"}, Spec: *spec}
	w.api.Put(p)
}

func (w *world) settings() *Settings {
	return New(Config{NodeName: "n1", Client: w.api, Cache: w.api.Cache(), Dir: filepath.Join(w.dir, "record"), Sysctls: w.sysctls, Run: filepath.Join(w.dir, "run"), Boot: w.boot, Disks: w.disks,
		Restart: func(_ context.Context, unit string) error {
			if w.bad.Load() {
				return fmt.Errorf("restart %s: no", unit)
			}
			w.restarts = append(w.restarts, unit)
			return nil
		},
		step: func() error {
			if w.left == 0 {
				<-w.end
				return errors.New("killed")
			}
			w.left--
			return nil
		}})
}

// life runs an agent while f does; f may wait for nothing but time.
func (w *world) life(f func(s *Settings)) {
	w.t.Helper()
	s := w.settings()
	ctx, cancel := context.WithCancel(w.t.Context())
	w.end = ctx.Done()
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	synctest.Wait()
	f(s)
	synctest.Wait()
	cancel()
	if err := <-done; err != nil {
		w.t.Error(err)
	}
}

// says is the condition of the node.
func (w *world) says() string {
	w.t.Helper()
	n, err := client.Get[*corev1.Node](w.t.Context(), w.api, schema.Key{Name: "n1"})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range n.Status.Conditions {
		if c.Type == v1alpha1.NodeSettingsApplied {
			return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
		}
	}
	return ""
}

func (w *world) expect(what, got, want string) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
