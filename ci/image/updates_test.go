//go:build image

package image

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"

	"github.com/writ-os/writ/cmd/writ/imagecmd"
	"github.com/writ-os/writ/image/bundle"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// TestUpdates is the life of a machine: from a disk that was written for it,
// by UEFI, to the next version, past a broken one, and back by git revert.
func TestUpdates(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a machine six times")
	}
	emulator(t)
	uefi := firmware(t)
	repo := newRepository(t)
	p := newParts(t)
	a, b := p.build(t, "1.0.0", bundle.Quick), p.build(t, "1.1.0", bundle.Quick)
	broken := *p
	broken.programs.Writ = filepath.Join(t.TempDir(), "broken")
	goBuild(t, ".", broken.programs.Writ, "./testdata/broken")
	c := broken.build(t, "1.2.0", bundle.Quick)

	for name, content := range guestbook(t) {
		repo.write(name, content)
	}
	repo.write("readers.yaml", readers)
	first := repo.publish("Begin with the guestbook")

	disk := a.disk(t)
	configure(t, disk, fmt.Sprintf("role: server\nunsignedImages: true\nnodeName: one\nrepository: {url: %q}\n", repo.url+"/git/cluster.git"))
	g := start(t, disk, uefi...)
	g.ready(10*time.Minute, "one")
	g.commit(10*time.Minute, first, v1alpha1.CommitHealthy)
	g.answers()
	g.memory("one")

	t.Log("the next version")
	repo.write("image.yaml", repo.offer(b))
	repo.write("pool.yaml", pool(b))
	next := repo.publish("Run 1.1.0")
	g.follow(20*time.Minute, "1.1.0 runs and is good", runs(b))
	g.commit(5*time.Minute, next, v1alpha1.CommitHealthy)
	g.answers()

	t.Log("a version whose writ does not start")
	repo.write("image-c.yaml", repo.offer(c))
	repo.write("pool.yaml", pool(c))
	bad := repo.publish("Run 1.2.0")
	g.follow(25*time.Minute, "1.1.0 runs again, and 1.2.0 is remembered as bad", func(image, phase, failed string, p *v1alpha1.NodePool) bool {
		return image == b.Version && phase == string(v1alpha1.UpdateFailed) && failed == "writ-"+c.Version ||
			image == b.Version && apimeta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.NodePoolDegraded)
	})
	g.eventually(time.Minute, "NodeImage writ-1.2.0 says where it failed", func() error {
		var i v1alpha1.NodeImage
		if err := g.get("/apis/writ.dev/v1alpha1/nodeimages/writ-"+c.Version, &i); err != nil {
			return err
		}
		if len(i.Status.Failed) != 1 || i.Status.Failed[0].Node != "one" {
			return fmt.Errorf("it says %+v", i.Status)
		}
		g.step("    %s: %s", i.Status.Failed[0].Reason, i.Status.Failed[0].Message)
		return nil
	})
	// No time mends that: the commit does not wait for the end of its ten minutes.
	g.commit(time.Minute, bad, v1alpha1.CommitFailed)
	g.answers()

	t.Log("git revert")
	repo.git(repo.dir, "revert", "--no-edit", "HEAD")
	back := repo.push()
	g.follow(5*time.Minute, "the pool is as it should be", runs(b))
	g.commit(5*time.Minute, back, v1alpha1.CommitHealthy)
	g.answers()
}

// runs says that the pool's node has come to a version, and that it is good:
// one on trial says that it is Trying.
func runs(v version) func(image, phase, failed string, p *v1alpha1.NodePool) bool {
	return func(image, phase, failed string, p *v1alpha1.NodePool) bool {
		return image == v.Version && phase == string(v1alpha1.UpdateIdle) && failed == "" && p.Spec.Image == "writ-"+v.Version &&
			apimeta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.NodePoolReady)
	}
}

func writeNode(t *testing.T, node string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "node.yaml")
	if err := os.WriteFile(name, []byte(node), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func configure(t *testing.T, disk, node string) {
	t.Helper()
	if _, found, err := imagecmd.Configure(disk, writeNode(t, node)); err != nil || len(found) > 0 {
		t.Fatalf("%v, %v", found, err)
	}
}

// guestbook is the example, of images that the node brings along.
func guestbook(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	names, err := filepath.Glob("../../examples/guestbook/*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("there is no example: %v", err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		// One will do: an emulated processor is slow.
		out[filepath.Base(name)] = strings.Replace(string(b), "replicas: 3", "replicas: 1", 1)
	}
	return out
}

// answers asks the guestbook by its NodePort.
func (g *guest) answers() {
	g.t.Helper()
	g.eventually(5*time.Minute, "the guestbook answers", func() error {
		b, err := g.read(fmt.Sprintf("http://127.0.0.1:%d/", g.web))
		if err == nil && !strings.Contains(string(b), "Welcome to the cluster that Git wrote") {
			err = fmt.Errorf("it says %.200s", b)
		}
		return err
	})
}
