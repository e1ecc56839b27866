package pvcprotection

import (
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/controlplane/controller/controllertest"
	"github.com/writ-os/writ/schema"
)

var key = schema.Key{Namespace: "default", Name: "data"}

func claim(change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Finalizers: []string{Finalizer}}}
	for _, f := range change {
		f(c)
	}
	return c
}

func deleted(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = ptr.To(metav1.Now()) }

func pod(node string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "p"}, Spec: corev1.PodSpec{NodeName: node,
		Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: key.Name}}}}}}
	for _, f := range change {
		f(p)
	}
	return p
}

func ephemeral(p *corev1.Pod) {
	p.Name = "da"
	p.Spec.Volumes = []corev1.Volume{{Name: "ta", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}
}

func forced(p *corev1.Pod) {
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = ptr.To(metav1.Now()), ptr.To[int64](0)
}

func TestReconcile(t *testing.T) {
	named := func(c *corev1.PersistentVolumeClaim) { c.Name = "da-ta" }
	owned := func(c *corev1.PersistentVolumeClaim) {
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "da", UID: "p", Controller: ptr.To(true)}}
	}
	other := func(p *corev1.Pod) { p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "another" }
	elsewhere := func(p *corev1.Pod) { p.Namespace = "elsewhere" }
	done := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
	for _, tt := range []struct {
		name  string
		claim *corev1.PersistentVolumeClaim
		pod   *corev1.Pod
		gone  bool
		held  bool
	}{
		{"lives", claim(), pod("n"), false, true},
		{"made without", claim(func(c *corev1.PersistentVolumeClaim) { c.Finalizers = nil }), pod("n"), false, true},
		{"unused", claim(deleted), pod("n", other), true, false},
		{"used in another namespace", claim(deleted), pod("n", elsewhere), true, false},
		{"used", claim(deleted), pod("n"), false, true},
		{"used by one that ended", claim(deleted), pod("n", done), false, true},
		{"used by one deleted by force", claim(deleted), pod("n", forced), false, true},
		{"used by one without node", claim(deleted), pod(""), true, false},
		{"ephemeral, used", claim(deleted, named, owned), pod("n", ephemeral), false, true},
		{"ephemeral of another", claim(deleted, named), pod("n", ephemeral), true, false},
		{"ephemeral, deleted by force", claim(deleted, named, owned), pod("n", ephemeral, forced), true, false},
		{"held by others too", claim(deleted, func(c *corev1.PersistentVolumeClaim) { c.Finalizers = append(c.Finalizers, "writ.dev/test") }), pod("n", other), false, false},
	} {
		f := client.NewFake(tt.claim, tt.pod)
		c := New(controllertest.Tools(f))
		if _, err := c.Reconcile(t.Context(), schema.KeyOf(tt.claim)); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		got, err := client.Get[*corev1.PersistentVolumeClaim](t.Context(), f, schema.KeyOf(tt.claim))
		if apierrors.IsNotFound(err) != tt.gone {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err == nil && slices.Contains(got.Finalizers, Finalizer) != tt.held {
			t.Errorf("%s: finalizers %v", tt.name, got.Finalizers)
		}
	}
}

// stale is a cache that does not know of a pod yet.
type stale struct{ client.Cache }

func (s stale) List(r *schema.Resource, ns string) []schema.Object {
	if r == schema.ResourceFor[*corev1.Pod]() {
		return nil
	}
	return s.Cache.List(r, ns)
}

func TestAsksTheServer(t *testing.T) {
	f := client.NewFake(claim(deleted), pod("n"))
	if _, err := New(controller.Tools{Client: f, Cache: stale{f.Cache()}}).Reconcile(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if _, ok := f.Cache().Get(schema.ResourceFor[*corev1.PersistentVolumeClaim](), key); !ok {
		t.Error("a claim went that a pod uses which the cache did not know")
	}
}

func TestRefusedWriteIsAnError(t *testing.T) {
	f := client.NewFake(claim(deleted))
	f.Reject(func(client.Verb, *schema.Resource, string, schema.Object) error { return errors.New("full") })
	if _, err := New(controllertest.Tools(f)).Reconcile(t.Context(), key); err == nil {
		t.Error("no error")
	}
}

func TestEvents(t *testing.T) {
	another := pod("n", func(p *corev1.Pod) { p.UID = "q"; p.Spec.Volumes = nil })
	for _, tt := range []struct {
		name string
		ev   client.Event
		want int
	}{
		{"runs", client.Event{Type: client.Modified, Object: pod("n"), Old: pod("n")}, 0},
		{"gone", client.Event{Type: client.Deleted, Object: pod("n")}, 1},
		{"ephemeral gone", client.Event{Type: client.Deleted, Object: pod("n", ephemeral)}, 1},
		{"ended", client.Event{Type: client.Modified, Object: pod("n", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })}, 1},
		{"deleted by force", client.Event{Type: client.Modified, Object: pod("n", forced)}, 1},
		{"replaced unseen", client.Event{Type: client.Modified, Object: another, Old: pod("n")}, 1},
	} {
		if got := freed(tt.ev); len(got) != tt.want {
			t.Errorf("%s: wakes %v", tt.name, got)
		}
	}
	claims := New(controller.Tools{}).Watches()[0].Map
	for want, c := range map[int][]*corev1.PersistentVolumeClaim{
		0: {claim(), claim(deleted, func(c *corev1.PersistentVolumeClaim) { c.Finalizers = []string{"x/y"} })},
		1: {claim(deleted), claim(func(c *corev1.PersistentVolumeClaim) { c.Finalizers = nil })},
	} {
		for _, o := range c {
			if got := claims(client.Event{Type: client.Modified, Object: o}); len(got) != want {
				t.Errorf("%v, deleted %v: wakes %v", o.Finalizers, o.DeletionTimestamp, got)
			}
		}
	}
}
