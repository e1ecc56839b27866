package controllers_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controllers"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

// cluster is all controllers over a server, with a node agent and a scheduler
// that do the least: bind, run, make ready, end.
type cluster struct {
	client.Backend
	t *testing.T
	// nodes is how many have joined.
	nodes atomic.Int64
	// exits says how the containers of a pod end; nil runs them for ever.
	exits func(*corev1.Pod) (corev1.PodPhase, bool)
	// startup is how long a pod takes to become ready.
	startup time.Duration
	bubble  bool
	tick    time.Duration
}

// over runs a test over a Fake, in a bubble where hours are milliseconds, and
// over a real registry and store.
func over(t *testing.T, nodes int, test func(t *testing.T, c *cluster)) {
	t.Run("fake", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := client.NewFake()
			f.Reject(lifecycle(f))
			c := &cluster{Backend: f, t: t, startup: time.Second, bubble: true, tick: 100 * time.Millisecond}
			c.start(nodes)
			test(t, c)
		})
	})
	t.Run("registry", func(t *testing.T) {
		if testing.Short() {
			t.Skip("takes seconds")
		}
		t.Parallel()
		c := &cluster{Backend: openRegistry(t), t: t, startup: 30 * time.Millisecond, tick: 10 * time.Millisecond}
		c.start(nodes)
		test(t, c)
	})
}

// lifecycle refuses to create in a namespace that is going, as admission does.
func lifecycle(f *client.Fake) func(client.Verb, *schema.Resource, string, schema.Object) error {
	return func(v client.Verb, r *schema.Resource, sub string, o schema.Object) error {
		if v != client.VerbCreate || sub != "" || !r.Namespaced {
			return nil
		}
		ns, ok := client.Cached[*corev1.Namespace](f.Cache(), schema.Key{Name: o.GetNamespace()})
		if !ok || ns.DeletionTimestamp == nil {
			return nil
		}
		err := apierrors.NewForbidden(r.GroupResource(), o.GetName(), errors.New("namespace is being terminated"))
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
		return err
	}
}

// openRegistry runs a registry over a store until the test is over.
func openRegistry(t testing.TB) client.Backend {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	st := store.New(store.Config{Dir: t.TempDir(), Log: log, Tick: 10 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- st.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("store: %v", err)
		}
	})
	<-st.Ready()
	reg := registry.New(registry.Config{Store: st, Log: log})
	return client.Local(reg, &user.DefaultInfo{Name: "system:kube-controller-manager", Groups: []string{user.SystemPrivilegedGroup}}, "kube-controller-manager")
}

// start runs the controllers until the test is over.
func (c *cluster) start(nodes int) {
	c.t.Helper()
	for _, ns := range []string{"default", "kube-system"} {
		c.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	}
	for i := range nodes {
		c.join(i)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() {
		done <- controllers.Run(ctx, controllers.Config{Client: c.Backend, Cache: c.Cache(), CA: []byte("ca"), Server: "https://192.0.2.1:6443",
			Tokens: controllers.Tokens{Legacy: func(*corev1.ServiceAccount, string) (string, error) { return "token", nil }},
			Log:    slog.New(slog.NewTextHandler(c.t.Output(), nil))})
	}()
	go func() {
		c.kubelet(ctx)
		done <- nil
	}()
	c.t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				c.t.Errorf("run: %v", err)
			}
		}
	})
}

// join adds a node that is ready.
func (c *cluster) join(i int) {
	n := node(i)
	c.create(n)
	for {
		ready := get[*corev1.Node](c, "", n.Name).DeepCopy()
		ready.Status = n.Status
		_, err := client.UpdateStatus(c.t.Context(), c.Backend, ready)
		if err == nil {
			break
		}
		if !apierrors.IsConflict(err) {
			c.t.Fatalf("join node %s: %v", n.Name, err)
		}
	}
	c.nodes.Store(int64(i) + 1)
}

func node(i int) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i), Labels: map[string]string{"kubernetes.io/hostname": fmt.Sprintf("n%d", i)}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()},
		}},
	}
}

// kubelet looks at all pods again and again.
func (c *cluster) kubelet(ctx context.Context) {
	beat := time.Time{}
	for tick := 0; ; tick++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(c.tick):
		}
		if time.Since(beat) > 10*time.Second {
			c.heartbeat(ctx)
			beat = time.Now()
		}
		for i, p := range client.CachedList[*corev1.Pod](c.Cache(), "") {
			if err := c.step(ctx, tick+i, p); err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				c.t.Errorf("kubelet: %v", err)
			}
		}
	}
}

func (c *cluster) heartbeat(ctx context.Context) {
	for _, n := range client.CachedList[*corev1.Node](c.Cache(), "") {
		next := n.DeepCopy()
		for i := range next.Status.Conditions {
			next.Status.Conditions[i].LastHeartbeatTime = metav1.Now()
		}
		if _, err := client.UpdateStatus(ctx, c.Backend, next); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) {
			c.t.Errorf("heartbeat: %v", err)
		}
	}
}

// step takes one pod one step on.
func (c *cluster) step(ctx context.Context, n int, p *corev1.Pod) error {
	switch {
	case p.Spec.NodeName == "":
		return c.bind(ctx, n, p)
	case p.DeletionTimestamp != nil:
		zero := int64(0)
		return client.Delete[*corev1.Pod](ctx, c.Backend, schema.KeyOf(p), client.DeleteOptions{GracePeriodSeconds: &zero})
	case p.Status.Phase == corev1.PodPending:
		next := p.DeepCopy()
		next.Status.Phase = corev1.PodRunning
		next.Status.StartTime = &metav1.Time{Time: time.Now()}
		next.Status.PodIP = fmt.Sprintf("10.244.%d.%d", n/250%250, n%250+1)
		next.Status.PodIPs = []corev1.PodIP{{IP: next.Status.PodIP}}
		_, err := client.UpdateStatus(ctx, c.Backend, next)
		return err
	case p.Status.Phase == corev1.PodRunning && time.Since(p.Status.StartTime.Time) >= c.startup:
		return c.run(ctx, p)
	}
	return nil
}

// bind puts a pod on the node that its affinity names, or on the next one.
func (c *cluster) bind(ctx context.Context, n int, p *corev1.Pod) error {
	nodes := int(c.nodes.Load())
	if nodes == 0 {
		return nil
	}
	target := fmt.Sprintf("n%d", n%nodes)
	if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		target = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0]
	}
	b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: target}}
	_, err := c.Create(ctx, schema.ResourceFor[*corev1.Pod](), b, client.WriteOptions{Subresource: "binding", Key: schema.KeyOf(p)})
	return err
}

// run makes a running pod ready, or ends it.
func (c *cluster) run(ctx context.Context, p *corev1.Pod) error {
	next := p.DeepCopy()
	ready := corev1.ConditionTrue
	if c.exits != nil {
		if phase, ends := c.exits(p); ends {
			next.Status.Phase, ready = phase, corev1.ConditionFalse
		}
	}
	for i := range next.Status.Conditions {
		if next.Status.Conditions[i].Type == corev1.PodReady {
			if next.Status.Conditions[i].Status == ready && next.Status.Phase == p.Status.Phase {
				return nil
			}
			next.Status.Conditions = append(next.Status.Conditions[:i], next.Status.Conditions[i+1:]...)
			break
		}
	}
	next.Status.Conditions = append(next.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.Now()})
	_, err := client.UpdateStatus(ctx, c.Backend, next)
	return err
}

// eventually waits, in the bubble's time, until a condition holds.
func (c *cluster) eventually(what string, limit time.Duration, holds func() bool) {
	c.t.Helper()
	for begin := time.Now(); !holds(); time.Sleep(c.tick / 2) {
		if time.Since(begin) > limit {
			c.t.Fatalf("after %v still not: %s", limit, what)
		}
		if c.bubble {
			synctest.Wait()
		}
	}
}

func list[T schema.Object](c *cluster, ns string) []T { return client.CachedList[T](c.Cache(), ns) }

func get[T schema.Object](c *cluster, ns, name string) T {
	c.t.Helper()
	o, err := client.Get[T](c.t.Context(), c.Backend, schema.Key{Namespace: ns, Name: name})
	if err != nil {
		c.t.Fatalf("get %s/%s: %v", ns, name, err)
	}
	return o
}

func (c *cluster) create(o schema.Object) {
	c.t.Helper()
	if _, err := c.Create(c.t.Context(), schema.ResourceOf(o), o, client.WriteOptions{}); err != nil {
		c.t.Fatalf("create %s: %v", schema.KeyOf(o), err)
	}
}

// update changes an object, again where it changed in between.
func update[T schema.Object](c *cluster, ns, name string, change func(T)) {
	c.t.Helper()
	for {
		o := get[T](c, ns, name).DeepCopyObject().(T)
		change(o)
		_, err := client.Update(c.t.Context(), c.Backend, o, client.WriteOptions{})
		if err == nil {
			return
		}
		if !apierrors.IsConflict(err) {
			c.t.Fatalf("update %s/%s: %v", ns, name, err)
		}
	}
}
