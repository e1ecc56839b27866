package controllers

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// cluster is all controllers over a Fake, with a node agent and a scheduler
// that do the least: bind, run, make ready, end.
type cluster struct {
	*client.Fake
	t     *testing.T
	nodes int
	// exits says how the containers of a pod end; nil runs them for ever.
	exits func(*corev1.Pod) (corev1.PodPhase, bool)
	// startup is how long a pod takes to become ready.
	startup time.Duration
}

// start runs the controllers in a synctest bubble until the test is over.
func start(t *testing.T, nodes int, f *client.Fake) *cluster {
	t.Helper()
	c := &cluster{Fake: f, t: t, nodes: nodes, startup: time.Second}
	for i := range nodes {
		f.Put(node(i))
	}
	for _, ns := range []string{"default", "kube-system"} {
		f.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() {
		done <- Run(ctx, Config{Client: f, Cache: f.Cache(), CA: []byte("ca"), Log: slog.New(slog.NewTextHandler(t.Output(), nil)), PodCIDR: netip.MustParsePrefix("10.244.0.0/16")})
	}()
	go func() {
		c.kubelet(ctx)
		done <- nil
	}()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Errorf("run: %v", err)
			}
		}
	})
	return c
}

func node(i int) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i), Labels: map[string]string{"kubernetes.io/hostname": fmt.Sprintf("n%d", i)}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()},
		}},
	}
}

// kubelet looks at all pods every 100 ms.
func (c *cluster) kubelet(ctx context.Context) {
	beat := time.Time{}
	for tick := 0; ; tick++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
		if time.Since(beat) > 10*time.Second {
			c.heartbeat(ctx)
			beat = time.Now()
		}
		for i, p := range client.CachedList[*corev1.Pod](c.Cache(), "") {
			if err := c.step(ctx, tick+i, p); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
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
		if _, err := client.UpdateStatus(ctx, c.Fake, next); err != nil && !apierrors.IsConflict(err) {
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
		return client.Delete[*corev1.Pod](ctx, c.Fake, schema.KeyOf(p), client.DeleteOptions{GracePeriodSeconds: &zero})
	case p.Status.Phase == corev1.PodPending:
		next := p.DeepCopy()
		next.Status.Phase = corev1.PodRunning
		next.Status.StartTime = &metav1.Time{Time: time.Now()}
		next.Status.PodIP = fmt.Sprintf("10.244.%d.%d", n/250%250, n%250+1)
		next.Status.PodIPs = []corev1.PodIP{{IP: next.Status.PodIP}}
		_, err := client.UpdateStatus(ctx, c.Fake, next)
		return err
	case p.Status.Phase == corev1.PodRunning && time.Since(p.Status.StartTime.Time) >= c.startup:
		return c.run(ctx, p)
	}
	return nil
}

// bind puts a pod on the node that its affinity names, or on the next one.
func (c *cluster) bind(ctx context.Context, n int, p *corev1.Pod) error {
	if c.nodes == 0 {
		return nil
	}
	target := fmt.Sprintf("n%d", n%c.nodes)
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
	_, err := client.UpdateStatus(ctx, c.Fake, next)
	return err
}

// eventually waits, in the bubble's time, until a condition holds.
func (c *cluster) eventually(what string, limit time.Duration, holds func() bool) {
	c.t.Helper()
	for begin := time.Now(); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Since(begin) > limit {
			c.t.Fatalf("after %v still not: %s", limit, what)
		}
		synctest.Wait()
	}
}

func list[T schema.Object](c *cluster, ns string) []T { return client.CachedList[T](c.Cache(), ns) }

func get[T schema.Object](c *cluster, ns, name string) T {
	c.t.Helper()
	o, err := client.Get[T](c.t.Context(), c.Fake, schema.Key{Namespace: ns, Name: name})
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
		_, err := client.Update(c.t.Context(), c.Fake, o, client.WriteOptions{})
		if err == nil {
			return
		}
		if !apierrors.IsConflict(err) {
			c.t.Fatalf("update %s/%s: %v", ns, name, err)
		}
	}
}
