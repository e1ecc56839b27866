package nodepool

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller/controllertest"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// fleet is a cluster under the controller: nodes whose agents follow their
// annotations, and pods that end when they are told.
type fleet struct {
	client.Backend
	t *testing.T
	// tick is how often agents look, boot how long a node takes.
	tick, boot time.Duration
	// broken are images that do not boot.
	broken sync.Map
	// least is the smallest number of nodes that were ready and open at a time.
	least atomic.Int64
	// through is what the controller writes through. Default: the Backend.
	through client.Backend
}

// over runs a scenario over a Fake, in a bubble where minutes are milliseconds,
// and over a real registry and store.
func over(t *testing.T, scenario func(t *testing.T, f *fleet)) {
	t.Run("fake", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			scenario(t, &fleet{Backend: client.NewFake(), t: t, tick: time.Second, boot: 40 * time.Second})
		})
	})
	t.Run("registry", func(t *testing.T) {
		if testing.Short() {
			t.Skip("takes seconds")
		}
		scenario(t, &fleet{Backend: openRegistry(t), t: t, tick: 10 * time.Millisecond, boot: 50 * time.Millisecond})
	})
}

// openRegistry runs a registry over a store until the test is over.
func openRegistry(t *testing.T) client.Backend {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	st := store.New(store.Config{Dir: t.TempDir(), Log: log, Tick: 10 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- st.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && ctx.Err() == nil {
			t.Errorf("store: %v", err)
		}
	})
	<-st.Ready()
	reg := registry.New(registry.Config{Store: st, Log: log})
	return client.Local(reg, &user.DefaultInfo{Name: "system:kube-controller-manager", Groups: []string{user.SystemPrivilegedGroup}}, "kube-controller-manager")
}

// start puts objects into the cluster and runs the controller and the agents.
func (f *fleet) start(objects ...schema.Object) (stop func()) {
	f.t.Helper()
	f.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	for _, o := range objects {
		f.create(o)
	}
	f.least.Store(int64(len(f.nodes())))
	if f.through == nil {
		f.through = f.Backend
	}
	stop = f.control()
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.agents(ctx)
	}()
	f.t.Cleanup(func() {
		cancel()
		<-done
	})
	return stop
}

// control runs a controller until stop is called, or the test is over.
func (f *fleet) control() (stop func()) {
	return controllertest.Start(f.t, f.Backend, New(controllertest.Tools(f.through)), 1)
}

// create stores an object with its status.
func (f *fleet) create(o schema.Object) {
	f.t.Helper()
	if _, err := f.Create(f.t.Context(), schema.ResourceOf(o), o.DeepCopyObject().(schema.Object), client.WriteOptions{}); err != nil {
		f.t.Fatalf("create %s: %v", schema.KeyOf(o), err)
	}
	switch want := o.(type) {
	case *corev1.Node:
		write(f, f.t.Context(), want.Name, "status", func(n *corev1.Node) { n.Status = want.Status })
	case *corev1.Pod:
		write(f, f.t.Context(), want.Name, "status", func(p *corev1.Pod) { p.Status = want.Status })
	case *policyv1.PodDisruptionBudget:
		write(f, f.t.Context(), want.Name, "status", func(b *policyv1.PodDisruptionBudget) {
			b.Status = want.Status
			b.Status.ObservedGeneration = b.Generation
		})
	}
}

// write changes an object, again where it changed in between. One that is gone
// stays so.
func write[T schema.Object](f *fleet, ctx context.Context, name, subresource string, change func(T)) {
	f.t.Helper()
	key := schema.Key{Name: name}
	if schema.ResourceFor[T]().Namespaced {
		key.Namespace = "shop"
	}
	for {
		o, err := client.Get[T](ctx, f.Backend, key)
		if apierrors.IsNotFound(err) || ctx.Err() != nil {
			return
		}
		if err == nil {
			o = o.DeepCopyObject().(T)
			change(o)
			_, err = client.Update(ctx, f.Backend, o, client.WriteOptions{Subresource: subresource})
		}
		if err == nil || apierrors.IsNotFound(err) || ctx.Err() != nil {
			return
		}
		if !apierrors.IsConflict(err) {
			f.t.Errorf("write %s: %v", key, err)
			return
		}
	}
}

// agents plays the agents of all nodes.
func (f *fleet) agents(ctx context.Context) {
	away := map[string]time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(f.tick):
		}
		serving := int64(0)
		for _, n := range client.CachedList[*corev1.Node](f.Cache(), "") {
			if isReady(n) && !n.Spec.Unschedulable {
				serving++
			}
			f.agent(ctx, n, away)
		}
		f.least.Store(min(f.least.Load(), serving))
		for _, p := range client.CachedList[*corev1.Pod](f.Cache(), "shop") {
			if p.DeletionTimestamp != nil {
				zero := int64(0)
				if err := client.Delete[*corev1.Pod](ctx, f.Backend, schema.KeyOf(p), client.DeleteOptions{GracePeriodSeconds: &zero}); err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
					f.t.Errorf("end pod: %v", err)
				}
			}
		}
	}
}

// agent is one look of the agent of one node.
func (f *fleet) agent(ctx context.Context, n *corev1.Node, away map[string]time.Time) {
	n, err := client.Get[*corev1.Node](ctx, f.Backend, schema.KeyOf(n)) // a cache may lag
	if err != nil {
		return
	}
	m := read(n)
	say := func(pairs ...string) {
		write(f, ctx, n.Name, "", func(n *corev1.Node) {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i+1] == "" {
					delete(n.Annotations, pairs[i])
					continue
				}
				metav1.SetMetaDataAnnotation(&n.ObjectMeta, pairs[i], pairs[i+1])
			}
		})
	}
	const phase, image, failure = v1alpha1.UpdatePhaseAnnotation, v1alpha1.ImageAnnotation, v1alpha1.UpdateFailedAnnotation
	switch {
	case !m.ours:
	case m.phase == v1alpha1.UpdateRebooting:
		if time.Since(away[n.Name]) < f.boot {
			return
		}
		if _, broken := f.broken.Load(m.desired); broken {
			say(phase, "Failed", failure, m.desired, v1alpha1.UpdateMessageAnnotation, "the network did not come up")
		} else if m.desired == "" {
			say(phase, "Idle")
		} else if i, err := client.Get[*v1alpha1.NodeImage](ctx, f.Backend, schema.Key{Name: m.desired}); err == nil {
			say(phase, "Idle", image, i.Spec.Version, v1alpha1.KernelArgumentsAnnotation, v1alpha1.KernelArgumentsHash(m.desiredArguments))
		}
		write(f, ctx, n.Name, "status", func(n *corev1.Node) { setReady(n, true) })
	case m.desired == "" && (m.phase != v1alpha1.UpdateIdle || m.failed != ""):
		say(phase, "Idle", failure, "", v1alpha1.UpdateMessageAnnotation, "")
	case m.desired == "" || m.failed == m.desired:
	case m.reboot == m.desired && m.phase == v1alpha1.UpdateStaged:
		away[n.Name] = time.Now()
		say(phase, "Rebooting")
		write(f, ctx, n.Name, "status", func(n *corev1.Node) { setReady(n, false) })
	case m.phase != v1alpha1.UpdateStaged:
		say(phase, "Staged")
	}
}

// eventually waits until a condition holds.
func (f *fleet) eventually(what string, holds func() bool) {
	f.t.Helper()
	// As many looks in the bubble as outside of it.
	for range 3000 {
		if holds() {
			return
		}
		time.Sleep(f.tick)
	}
	for _, p := range client.CachedList[*v1alpha1.NodePool](f.Cache(), "") {
		f.t.Logf("pool %s: %s", p.Name, p.Status.Message)
	}
	for _, n := range client.CachedList[*corev1.Node](f.Cache(), "") {
		f.t.Logf("node %s: ready %v, unschedulable %v, %v", n.Name, isReady(n), n.Spec.Unschedulable, n.Annotations)
	}
	f.t.Fatalf("still not: %s", what)
}

func (f *fleet) pool(name string) v1alpha1.NodePoolStatus {
	f.t.Helper()
	p, err := client.Get[*v1alpha1.NodePool](f.t.Context(), f.Backend, schema.Key{Name: name})
	if err != nil {
		f.t.Fatal(err)
	}
	return p.Status
}

func (f *fleet) is(name, kind, reason string) func() bool {
	return func() bool {
		c := condition(f.pool(name), kind)
		return c.Status == "True" && c.Reason == reason
	}
}

func (f *fleet) nodes() []*corev1.Node { return client.CachedList[*corev1.Node](f.Cache(), "") }

// clean wants nodes to run a version, to serve, and to carry nothing of ours.
func (f *fleet) clean(version string) {
	f.t.Helper()
	for _, n := range f.nodes() {
		m := read(n)
		if m.version != version || !m.ready || n.Spec.Unschedulable || m.desired+m.reboot+m.step != "" || m.cordoned() {
			f.t.Errorf("node %s: ready %v, unschedulable %v, %v", n.Name, m.ready, n.Spec.Unschedulable, n.Annotations)
		}
	}
}

// quickly makes the watch over a node that has come back short.
func quickly(p *v1alpha1.NodePool) {
	p.Spec.Update.Settle = &metav1.Duration{Duration: time.Second}
}

// A commit names a new version: every node runs it, one after the other; the
// commit is turned back, and every node runs the old one.
func TestRollAndBack(t *testing.T) {
	over(t, func(t *testing.T, f *fleet) {
		f.start(anImage("v1", "1.0.0"), anImage("v2", "1.1.0"), aPool("all", "v1", quickly),
			aNode("n1", "1.0.0"), aNode("n2", "1.0.0"), server(aNode("n3", "1.0.0")), aPod("a", "n1"), aPod("b", "n2"), aPod("c", "n3"))
		f.eventually("up to date", f.is("all", "Ready", "UpToDate"))
		for _, i := range []string{"v2", "v1"} {
			write(f, t.Context(), "all", "", func(p *v1alpha1.NodePool) { p.Spec.Image = i })
			f.eventually("begun", f.is("all", "Progressing", "Updating"))
			f.eventually("up to date", f.is("all", "Ready", "UpToDate"))
			f.clean(map[string]string{"v1": "1.0.0", "v2": "1.1.0"}[i])
		}
		if n := f.least.Load(); n != 2 {
			t.Errorf("%d of 3 nodes served at the worst, want 2", n)
		}
		if left := client.CachedList[*corev1.Pod](f.Cache(), "shop"); len(left) != 0 {
			t.Errorf("%d pods were not evicted", len(left))
		}
	})
}

// A version that does not boot: one node tries it and comes back, the others
// are not touched, the image says where it failed, and the way back is clean.
func TestBadImage(t *testing.T) {
	over(t, func(t *testing.T, f *fleet) {
		f.broken.Store("v2", true)
		f.start(anImage("v1", "1.0.0"), anImage("v2", "1.1.0"), aPool("all", "v2", quickly, atMost("2")), aNode("n1", "1.0.0"), aNode("n2", "1.0.0"), aNode("n3", "1.0.0"), aNode("n4", "1.0.0"))
		f.eventually("stopped", f.is("all", "Degraded", "ImageFailed"))
		f.eventually("let back", func() bool {
			return !slices.ContainsFunc(f.nodes(), func(n *corev1.Node) bool {
				return n.Spec.Unschedulable || !isReady(n) || n.Annotations[v1alpha1.UpdateStepAnnotation] != ""
			})
		})
		time.Sleep(30 * f.tick)
		i, err := client.Get[*v1alpha1.NodeImage](t.Context(), f.Backend, schema.Key{Name: "v2"})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(i.Status.Failed); n < 1 || n > 2 || i.Status.Failed[0].Message != "the network did not come up" {
			t.Errorf("failures %+v", i.Status.Failed)
		}
		if msg := f.pool("all").Message; !strings.Contains(msg, "v2 failed on node n") || !strings.Contains(msg, "revert the commit") {
			t.Errorf("message %q", msg)
		}
		if n := f.least.Load(); n < 2 {
			t.Errorf("%d of 4 nodes served at the worst", n)
		}
		write(f, t.Context(), "all", "", func(p *v1alpha1.NodePool) { p.Spec.Image = "v1" })
		f.eventually("up to date", f.is("all", "Ready", "UpToDate"))
		f.eventually("cleaned up", func() bool {
			return !slices.ContainsFunc(f.nodes(), func(n *corev1.Node) bool { return n.Annotations[v1alpha1.DesiredImageAnnotation] != "" })
		})
		f.clean("1.0.0")

		// It is mended, and somebody says so.
		f.broken.Clear()
		write(f, t.Context(), "v2", "", func(i *v1alpha1.NodeImage) {
			metav1.SetMetaDataAnnotation(&i.ObjectMeta, v1alpha1.RetryAnnotation, "2026-11-22")
		})
		write(f, t.Context(), "all", "", func(p *v1alpha1.NodePool) { p.Spec.Image = "v2" })
		f.eventually("begun", f.is("all", "Progressing", "Updating"))
		f.eventually("up to date", f.is("all", "Ready", "UpToDate"))
		f.clean("1.1.0")
	})
}

// A budget holds a drain up, the pool says which, and goes on when it allows.
func TestBudgetHoldsUp(t *testing.T) {
	over(t, func(t *testing.T, f *fleet) {
		f.start(anImage("v2", "1.1.0"), aBudget("web", 0),
			aPool("all", "v2", quickly, func(p *v1alpha1.NodePool) {
				p.Spec.Update.DrainTimeout = &metav1.Duration{Duration: time.Second}
			}),
			aNode("n1", "1.0.0"), aNode("n2", "1.0.0"), aPod("a", "n1"))
		f.eventually("stopped", f.is("all", "Degraded", "DrainBlocked"))
		if msg := f.pool("all").Message; !strings.Contains(msg, "PodDisruptionBudget shop/web blocks pod a") {
			t.Errorf("message %q", msg)
		}
		if _, err := client.Get[*corev1.Pod](t.Context(), f.Backend, schema.Key{Namespace: "shop", Name: "a"}); err != nil {
			t.Errorf("the pod: %v", err)
		}
		write(f, t.Context(), "web", "status", func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = 1 })
		f.eventually("up to date", f.is("all", "Ready", "UpToDate"))
		f.clean("1.1.0")
	})
}

// refuser refuses every second write.
type refuser struct {
	client.Backend
	n int
}

func (r *refuser) refuse() error {
	if r.n++; r.n%2 == 0 {
		return apierrors.NewInternalError(fmt.Errorf("write %d is refused", r.n))
	}
	return nil
}

func (r *refuser) Update(ctx context.Context, res *schema.Resource, o schema.Object, w client.WriteOptions) (schema.Object, error) {
	if err := r.refuse(); err != nil {
		return nil, err
	}
	return r.Backend.Update(ctx, res, o, w)
}

func (r *refuser) Create(ctx context.Context, res *schema.Resource, o schema.Object, w client.WriteOptions) (schema.Object, error) {
	if err := r.refuse(); err != nil {
		return nil, err
	}
	return r.Backend.Create(ctx, res, o, w)
}

// Whatever write fails, and however often the control plane starts anew, the
// nodes arrive.
func TestWritesFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := client.NewFake()
		f := &fleet{Backend: fake, t: t, tick: time.Second, boot: 40 * time.Second, through: &refuser{Backend: fake}}
		stop := f.start(anImage("v1", "1.0.0"), anImage("v2", "1.1.0"), aPool("all", "v2", quickly), aNode("n1", "1.0.0"), aNode("n2", "1.0.0"), aPod("a", "n1"), aPod("b", "n2"))
		for range 20 {
			time.Sleep(17 * time.Second)
			stop()
			stop = f.control()
		}
		f.eventually("up to date", f.is("all", "Ready", "UpToDate"))
		f.clean("1.1.0")
	})
}

// A pod that comes after the plan was made is not killed by the reboot.
func TestPodThatComesLate(t *testing.T) {
	f := client.NewFake(anImage("new", "1.1.0"), aPool("p", "new"), drainingNode("w1", "1.0.0", "new", time.Minute))
	c := New(controllertest.Tools(f))
	w, _ := c.read()
	p := decide(w, noon)
	if got := brief(p); got != "Reboot w1 new -> Rebooting" {
		t.Fatal(got)
	}
	f.Put(aPod("late", "w1"))
	if err := c.act(t.Context(), w, p); err == nil || !strings.Contains(err.Error(), "pod shop/late has come") {
		t.Errorf("got %v", err)
	}
	n, err := client.Get[*corev1.Node](t.Context(), f, schema.Key{Name: "w1"})
	if err != nil || n.Annotations[v1alpha1.RebootAnnotation] != "" {
		t.Errorf("it was rebooted all the same: %v, %v", n.Annotations, err)
	}
}

// A cache that is behind our own writes is not planned from.
func TestCacheThatLags(t *testing.T) {
	f := client.NewFake(anImage("new", "1.1.0"), aPool("p", "new"), stagedNode("w1", "1.0.0", "new"), stagedNode("w2", "1.0.0", "new"))
	c := New(controllertest.Tools(f))
	before, _ := c.read()
	if err := c.act(t.Context(), before, decide(before, noon)); err != nil {
		t.Fatal(err)
	}
	if _, behind := c.read(); behind {
		t.Error("the cache has seen the write")
	}
	now, _ := client.Cached[*corev1.Node](f.Cache(), schema.Key{Name: "w1"})
	c.replaced["w1"] = now.ResourceVersion
	if _, behind := c.read(); !behind {
		t.Error("the cache shows what was written over")
	}
	res, err := c.Reconcile(t.Context(), everything[0])
	if err != nil || res.RequeueAfter != lag {
		t.Errorf("%+v, %v", res, err)
	}
}

// Heartbeats of nodes, and pods of nodes that nobody touches, wake nobody.
func TestWhatMatters(t *testing.T) {
	was := aNode("n1", "1.0.0")
	event := func(change func(*corev1.Node)) client.Event {
		n := was.DeepCopy()
		change(n)
		return client.Event{Type: client.Modified, Object: n, Old: was}
	}
	for name, c := range map[string]struct {
		ev   client.Event
		want bool
	}{
		"heartbeat": {event(func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.Now() }), false},
		"images":    {event(func(n *corev1.Node) { n.Status.Images = []corev1.ContainerImage{{}} }), false},
		"readiness": {event(func(n *corev1.Node) { setReady(n, false) }), true},
		"labels":    {event(func(n *corev1.Node) { n.Labels["a"] = "b" }), true},
		"its agent": {event(func(n *corev1.Node) { n.Annotations[v1alpha1.UpdatePhaseAnnotation] = "Staged" }), true},
		"a cordon":  {event(func(n *corev1.Node) { n.Spec.Unschedulable = true }), true},
		"new":       {client.Event{Type: client.Added, Object: was}, true},
		"gone":      {client.Event{Type: client.Deleted, Object: was, Old: was}, true},
	} {
		if got := nodeMatters(c.ev); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	c := New(controllertest.Tools(client.NewFake(was, drainingNode("n2", "1.0.0", "new", 0))))
	for node, want := range map[string]bool{"n1": false, "n2": true, "n3": false, "": false} {
		if got := c.podMatters(client.Event{Type: client.Deleted, Object: aPod("a", node)}); got != want {
			t.Errorf("pod on %q: %v", node, got)
		}
	}
}

// What a step leaves of other annotations, and of a cordon that is a person's.
func TestApply(t *testing.T) {
	n := stagedNode("w1", "1.0.0", "new", "other", "kept")
	n.Spec.Unschedulable, n.UID = true, types.UID("u")
	for _, s := range []step{
		{action: cordon, next: note(draining, noon)}, {action: reboot, image: "new", next: note(rebooting, noon)},
		{action: uncordon, next: note(settling, noon)}, {action: mark}, {action: forget},
	} {
		n = s.apply(n)
		if !n.Spec.Unschedulable || n.Annotations["other"] != "kept" || n.UID != "u" || n.Annotations[v1alpha1.CordonedByAnnotation] != "" {
			t.Errorf("%s: %+v", s.action, n.ObjectMeta)
		}
	}
	if len(n.Annotations) != 3 { // other, the version and the phase
		t.Errorf("left: %v", n.Annotations)
	}
}
