//go:build image

package image

import (
	"bytes"
	"fmt"
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
// that pods use, and is there again after a power cut; the other one stays as it
// is, to the byte.
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
	const size = 2 << 30
	if err := os.WriteFile(blank, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(blank, size); err != nil {
		t.Fatal(err)
	}
	args := append(uefi, //nolint:gocritic // these are those of the machine
		"-drive", "file="+blank+",if=none,id=d1,format=raw,cache=unsafe", "-device", "virtio-blk-pci,drive=d1,serial=blank-1",
		"-drive", "file="+photos+",if=none,id=d2,format=raw,cache=unsafe", "-device", "virtio-blk-pci,drive=d2,serial=photos")

	system := newParts(t).build(t, "1.0.0", bundle.Quick).disk(t)
	configure(t, system, fmt.Sprintf("role: server\nnodeName: one\nrepository: {url: %q}\n", repo.url+"/git/cluster.git"))
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
		id = c.UUID
	}
	out, err := exec.Command("debugfs", "-R", "ls -p /", blank).CombinedOutput()
	if err == nil && !strings.Contains(string(out), "of-a-pod") {
		t.Errorf("the pod has written beside the disk: it has\n%s", out)
	}
	if b, err := os.ReadFile(photos); err != nil || !bytes.Equal(b, content) {
		t.Errorf("the disk that is not blank has changed: %v", err)
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
