package registry

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/controlplane/store/killtest"
	"github.com/writ-os/writ/schema"
)

// perCommit is how many objects one commit of the child declares.
const perCommit = 500

// transactChild applies commits until it dies, and says which are stored.
func transactChild(m *killtest.Mortal) {
	s := store.New(store.Config{Dir: m.Dir, Tick: 10 * time.Millisecond})
	go func() {
		if err := s.Run(context.Background()); err != nil {
			killtest.Fail(err)
		}
	}()
	<-s.Ready()
	g := New(Config{Store: s})
	ctx := as("system:writ:reconciler")
	for n := commitOf(g) + 1; ; n++ {
		if _, err := g.Transact(ctx, commitOps(g, n), false); err != nil {
			killtest.Fail(err)
		}
		fmt.Println(n)
		m.Step()
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

// TestKillTransact kills a process that applies commits of 500 objects, while it
// starts and in the middle of them. What it leaves is always a whole commit, and
// no address is given out twice.
func TestKillTransact(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etcd")
	last := 0
	killtest.Rounds(t, killtest.Config{Rounds: 105, Steps: 3, Delay: 120 * time.Millisecond}, func(p killtest.Point) {
		stored := 0
		p.Live(t, "commits", dir, func(line string) {
			if _, err := fmt.Sscan(line, &stored); err != nil {
				t.Fatalf("child said %q: %v", line, err)
			}
		})
		g, stop := open(t, dir)
		n := checkCommit(t, g)
		if n < stored || n < last+p.Steps {
			t.Fatalf("commit %d was stored and %d is there; the child began at %d and was to write %d", stored, n, last, p.Steps)
		}
		last = n
		stop()
	})
	t.Logf("%d commits", last)
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
