//go:build image

package image

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/image/bundle"
	"github.com/writ-os/writ/nodeagent/settings/disk"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// withDisks wants one disk that is blank, and one that is not.
const withDisks = `apiVersion: writ.dev/v1alpha1
kind: NodePool
metadata: {name: all}
spec:
  selector: {}
  disks:
  - {name: data, match: {serial: "blank-*", size: ">= 1Gi"}}
  - {name: photos, match: {path: /dev/disk/by-id/virtio-photos}}
---
apiVersion: v1
kind: Pod
metadata: {name: keeper}
spec:
  containers:
  - {name: demo, image: "writ.local/demo:v1", volumeMounts: [{name: data, mountPath: /data}]}
  volumes:
  - {name: data, hostPath: {path: /var/mnt/data/of-a-pod, type: DirectoryOrCreate}}
`

// TestDisks is a machine with two more disks: the blank one gets a file system
// that pods use, grows with its disk, while that is used and while the machine is
// off, and is there again after a power cut; the other one stays as it is, to the
// byte.
func TestDisks(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a machine twice")
	}
	emulator(t)
	uefi := firmware(t)
	repo := newRepository(t)
	repo.write("readers.yaml", readers)
	repo.write("disks.yaml", withDisks)
	repo.publish("Two disks")

	dir := t.TempDir()
	blank, photos := filepath.Join(dir, "blank"), filepath.Join(dir, "photos")
	content := make([]byte, 64<<20)
	copy(content, "XFSB")
	if err := os.WriteFile(photos, content, 0o600); err != nil {
		t.Fatal(err)
	}
	size := int64(2 << 30)
	if err := os.WriteFile(blank, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(blank, size); err != nil {
		t.Fatal(err)
	}
	monitor := filepath.Join(dir, "monitor")
	args := append(uefi, //nolint:gocritic // these are those of the machine
		"-qmp", "unix:"+monitor+",server=on,wait=off",
		"-drive", "file="+blank+",if=none,id=d1,format=raw,cache=unsafe", "-device", "virtio-blk-pci,drive=d1,serial=blank-1",
		"-drive", "file="+photos+",if=none,id=d2,format=raw,cache=unsafe", "-device", "virtio-blk-pci,drive=d2,serial=photos")

	system := newParts(t).build(t, "1.0.0", bundle.Quick).disk(t)
	configure(t, system, fmt.Sprintf("role: server\nunsignedImages: true\nnodeName: one\nrepository: {url: %q}\n", repo.url+"/git/cluster.git"))
	var id string
	for _, life := range []string{"first", "after a power cut"} {
		t.Run(life, func(t *testing.T) {
			g := start(t, system, args...)
			g.ready(10*time.Minute, "one")
			g.eventually(5*time.Minute, "the pod of the disk runs", g.runs("keeper"))
			g.eventually(5*time.Minute, "the disk that is not blank is refused, and that alone", func() error {
				n, err := g.node("one")
				if err != nil {
					return err
				}
				for _, c := range n.Status.Conditions {
					if c.Type != v1alpha1.NodeSettingsApplied {
						continue
					}
					if !strings.Contains(c.Message, "disk data") && strings.HasPrefix(c.Message, "NodePool all: disk photos: /dev/vd") && strings.Contains(c.Message, " has XFS, and is left as it is") {
						return nil
					}
					return fmt.Errorf("it says %s", c.Message)
				}
				return fmt.Errorf("it says nothing")
			})
			if life == "first" {
				size = 3 << 30
				resize(t, monitor, "d1", size)
			}
			g.grows()
			g.eventually(time.Minute, "the pod of the disk still runs", g.runs("keeper"))
			time.Sleep(10 * time.Second) // the journal of the file system is written
		})
		f, err := os.Open(blank)
		if err != nil {
			t.Fatal(err)
		}
		c, err := disk.ReadContent(f, size)
		_ = f.Close()
		if err != nil || c.Label != "writ-data" || c.Mark != "" || id != "" && c.UUID != id {
			t.Fatalf("the disk has %+v, %v", c, err)
		}
		if free := size - c.Bytes; free != 1<<20 {
			t.Errorf("the file system leaves %d bytes of %d, want 1 MiB", free, size)
		}
		id = c.UUID
		if life == "first" {
			size = 4 << 30
			if err := os.Truncate(blank, size); err != nil {
				t.Fatal(err)
			}
		}
	}
	out, err := exec.Command("debugfs", "-R", "ls -p /", blank).CombinedOutput()
	if err == nil && !strings.Contains(string(out), "of-a-pod") {
		t.Errorf("the pod has written beside the disk: it has\n%s", out)
	}
	var exit *exec.ExitError // 1: it has replayed the journal
	if out, err := exec.Command("e2fsck", "-f", "-p", blank).CombinedOutput(); errors.As(err, &exit) && exit.ExitCode() > 1 {
		t.Errorf("the file system is not whole: %v\n%s", err, out)
	}
	if b, err := os.ReadFile(photos); err != nil || !bytes.Equal(b, content) {
		t.Errorf("the disk that is not blank has changed: %v", err)
	}
}

// grows waits until the node's agent has grown a disk since the machine started.
// It looks each minute, and every five where something else cannot be set.
func (g *guest) grows() {
	g.t.Helper()
	var line string
	g.eventually(8*time.Minute, "the disk has grown", func() error {
		b, err := g.read(fmt.Sprintf("https://127.0.0.1:%d/api/v1/nodes/one/proxy/logs/?query=writ-agent&boot=0", g.api))
		if err != nil {
			return err
		}
		for l := range strings.Lines(string(b)) {
			if strings.Contains(l, "disk grown") {
				line = l
				return nil
			}
		}
		return errors.New("the agent does not say so")
	})
	g.step("    %s", strings.TrimSpace(line))
}

// resize gives a disk of a machine that runs another size, by QEMU's monitor.
func resize(t *testing.T, monitor, drive string, size int64) {
	t.Helper()
	c, err := net.Dial("unix", monitor)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(c, `{"execute": "qmp_capabilities"} {"execute": "block_resize", "arguments": {"device": %q, "size": %d}}`, drive, size); err != nil {
		t.Fatal(err)
	}
	answers := json.NewDecoder(c)
	for done := 0; done < 2; {
		var a map[string]any // a greeting, events, and what is returned
		if err := answers.Decode(&a); err != nil || a["error"] != nil {
			t.Fatalf("resize drive %s: %v, %v", drive, a["error"], err)
		}
		if _, ok := a["return"]; ok {
			done++
		}
	}
}

// runs says whether a pod of the default namespace does.
func (g *guest) runs(name string) func() error {
	return func() error {
		var p corev1.Pod
		err := g.get("/api/v1/namespaces/default/pods/"+name, &p)
		if err == nil && p.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("it is %s", p.Status.Phase)
		}
		return err
	}
}
