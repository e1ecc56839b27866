package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// mortal is a server that dies at one of its transactions, before or after it
// is stored: the writer learns of neither, and everything after fails.
type mortal struct {
	client.Backend
	left   atomic.Int32 // transactions until death
	stored bool

	mu      sync.Mutex
	answers []error // of the next transactions, in the place of the server's; nil: its own
}

var errDead = errors.New("killed")

func (m *mortal) Transact(ctx context.Context, ops []client.Op, dryRun bool) ([]schema.Object, error) {
	m.mu.Lock()
	if len(m.answers) > 0 {
		err := m.answers[0]
		m.answers = m.answers[1:]
		m.mu.Unlock()
		if err != nil {
			return nil, err
		}
	} else {
		m.mu.Unlock()
	}
	ops = m.customs(ops)
	switch n := m.left.Add(-1); {
	case n < 0:
		return nil, errDead
	case n == 0 && m.stored:
		_, _ = m.Backend.Transact(ctx, ops, dryRun)
		return nil, errDead
	case n == 0:
		return nil, errDead
	}
	return m.Backend.Transact(ctx, ops, dryRun)
}

// Create implements client.Writer: events are not transactions, and the dead
// write none.
func (m *mortal) Create(ctx context.Context, r *schema.Resource, o schema.Object, w client.WriteOptions) (schema.Object, error) {
	if m.left.Load() <= 0 {
		return nil, errDead
	}
	return m.Backend.Create(ctx, r, o, w)
}

// customs writes definitions and custom resources as a whole: the fake has no
// server-side apply for what it does not know.
func (m *mortal) customs(ops []client.Op) []client.Op {
	out := slices.Clone(ops)
	for i := range out {
		op := &out[i]
		if op.Verb != client.VerbApply || op.Resource.Custom == nil && op.Resource != crds {
			continue
		}
		op.Object, op.Verb = op.Object.DeepCopyObject().(schema.Object), client.VerbCreate
		op.Object.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: plan.Manager, Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1("{}")}})
		if _, ok := m.Cache().Get(op.Resource, op.Key); ok {
			op.Verb = client.VerbUpdate
		}
	}
	return out
}

// generation is the tree of a commit: every object says which one it is of.
func generation(n int) memTree {
	t := memTree{}
	for i := range 30 {
		t[fmt.Sprintf("f%d.yaml", (i+n)%7)] += fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d}\ndata: {n: \"%d\"}\n", i+n*3, n)
	}
	return t
}

// whole returns which generation the cluster is, and fails when it is between
// two, or when the inventories tell another story.
func whole(t *testing.T, f *client.Fake) int {
	t.Helper()
	all := client.CachedList[*corev1.ConfigMap](f.Cache(), "default")
	if len(all) == 0 {
		return -1
	}
	n := all[0].Data["n"]
	for _, c := range all {
		if c.Data["n"] != n || len(all) != 30 {
			t.Fatalf("half a commit: %d objects, %s is of %s and not of %s", len(all), c.Name, c.Data["n"], n)
		}
	}
	declared := 0
	for _, inv := range client.CachedList[*v1alpha1.Inventory](f.Cache(), "") {
		for _, o := range inv.Spec.Objects {
			declared++
			if _, ok := f.Cache().Get(kind("ConfigMap"), schema.Key{Namespace: o.Namespace, Name: o.Name}); !ok {
				t.Fatalf("the inventory declares %s, and it does not exist", o.Name)
			}
		}
	}
	if declared != 30 {
		t.Fatalf("the inventories declare %d objects", declared)
	}
	var gen int
	fmt.Sscan(n, &gen)
	return gen
}

// TestKilledAnywhere: whenever the process dies, the cluster is as before the
// commit or as after it, and the next process brings it to the head.
func TestKilledAnywhere(t *testing.T) {
	for point := range int32(6) {
		for _, stored := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d-%v", point, stored), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { kill(t, point, stored) })
			})
		}
	}
}

func kill(t *testing.T, point int32, stored bool) {
	fake, src := client.NewFake(), newMemSource()
	run := func(b client.Backend) (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- New(Config{Client: b, Source: src}).Run(ctx) }()
		synctest.Wait()
		return func() { cancel(); <-done }
	}
	src.push(generation(0), "zero")
	stop := run(fake)
	if got := whole(t, fake); got != 0 {
		t.Fatalf("generation %d", got)
	}
	stop()
	for n := 1; n <= 3; n++ {
		m := &mortal{Backend: fake, stored: stored}
		m.left.Store(point)
		stop := run(m)
		src.push(generation(n), "next")
		synctest.Wait()
		stop()
		if got := whole(t, fake); got != n-1 && got != n {
			t.Fatalf("generation %d while %d was applied", got, n)
		}
		stop = run(fake)
		if got := whole(t, fake); got != n {
			t.Fatalf("generation %d after the restart, want %d", got, n)
		}
		stop()
	}
}
