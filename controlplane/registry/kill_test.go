package registry

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

// The child process of the kill test applies commits until it is killed, and
// says on its output which are stored.
const childEnv = "WRIT_REGISTRY_TEST_CHILD"

// perCommit is how many objects one commit of the child declares.
const perCommit = 500

func transactChild(dir string) {
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	s := store.New(store.Config{Dir: dir, Tick: 10 * time.Millisecond})
	go func() {
		if err := s.Run(context.Background()); err != nil {
			fail(err)
		}
	}()
	<-s.Ready()
	g := New(Config{Store: s})
	ctx := as("system:writ:reconciler")
	for n := commitOf(g) + 1; ; n++ {
		if _, err := g.Transact(ctx, commitOps(g, n), false); err != nil {
			fail(err)
		}
		fmt.Println(n)
	}
}

// commitOps make commit n of what is stored: every object gets its number,
// every tenth is there in odd commits only, and some are Services with
// addresses to allocate.
func commitOps(g *Registry, n int) []client.Op {
	var ops []client.Op
	for i := range perCommit {
		name := fmt.Sprintf("o%03d", i)
		value := strconv.Itoa(n)
		r := configMaps
		fields := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"default"},"data":{"v":%q}}`, name, value)
		switch {
		case i%10 == 9 && n%2 == 0:
			if _, err := g.Get(context.Background(), r, key(name)); err == nil {
				ops = append(ops, client.Op{Verb: client.VerbDelete, Resource: r, Key: key(name)})
			}
			continue
		case i%50 == 0:
			r = services
			fields = fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":%q,"namespace":"default","labels":{"v":%q}},"spec":{"ports":[{"port":80,"protocol":"TCP"}]}}`, name, value)
		}
		ops = append(ops, client.Op{Verb: client.VerbApply, Resource: r, Key: key(name), FieldManager: "writ", Force: true, Fields: []byte(fields)})
	}
	return ops
}

func valueIn(o metav1.Object) int {
	v := o.GetLabels()["v"]
	if c, ok := o.(*corev1.ConfigMap); ok {
		v = c.Data["v"]
	}
	n, _ := strconv.Atoi(v)
	return n
}

// commitOf is the commit that is stored, by its first object.
func commitOf(g *Registry) int {
	o, ok := g.Cache().Get(services, key("o000"))
	if !ok {
		return 0
	}
	return valueIn(o)
}

// killsFlag makes the test as long as one likes: every life of a child is one
// random point at which it ends.
var killsFlag = flag.Int("kills", 105, "how many times the kill test kills its child")

// TestKillTransact kills a process that applies commits of 500 objects, at
// random moments. What it leaves is always a whole commit, and no address is
// given out twice.
func TestKillTransact(t *testing.T) {
	kills := *killsFlag
	dir := filepath.Join(t.TempDir(), "etcd")
	last := 0
	for kill := range kills {
		stored := applyAndKill(t, dir, time.Duration(rand.Int64N(int64(120*time.Millisecond))))
		g, stop := open(t, dir)
		n := checkCommit(t, g)
		if n < stored || n < last {
			t.Fatalf("kill %d: commit %d was stored and %d is there", kill, max(stored, last), n)
		}
		last = n
		stop()
	}
	t.Logf("%d commits in %d lives", last, kills)
	if last < kills {
		t.Errorf("the children stored %d commits in %d lives: the test kills too early", last, kills)
	}
}

func checkCommit(t *testing.T, g *Registry) int {
	t.Helper()
	n, seen := commitOf(g), 0
	addresses := map[string]string{}
	for _, r := range []*schema.Resource{configMaps, services} {
		for _, o := range g.Cache().List(r, "") {
			seen++
			if got := valueIn(o); got != n {
				t.Fatalf("%s is of commit %d, others of %d: half a commit", o.GetName(), got, n)
			}
			if svc, ok := o.(*corev1.Service); ok {
				if other := addresses[svc.Spec.ClusterIP]; other != "" || svc.Spec.ClusterIP == "" {
					t.Fatalf("%s has address %q, and so has %s", svc.Name, svc.Spec.ClusterIP, other)
				}
				addresses[svc.Spec.ClusterIP] = svc.Name
			}
		}
	}
	want := perCommit
	switch {
	case n == 0:
		want = 0
	case n%2 == 0:
		want -= perCommit / 10
	}
	if seen != want {
		t.Fatalf("commit %d has %d objects, want %d", n, seen, want)
	}
	return n
}

// applyAndKill runs a child until some time after its first commit.
func applyAndKill(t *testing.T, dir string, after time.Duration) (stored int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	for n := 0; ; n++ {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscan(line, &stored); err != nil {
			t.Fatalf("child said %q: %v", line, err)
		}
		if n == 0 {
			time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		}
	}
	_ = cmd.Wait() // killed
	return stored
}
