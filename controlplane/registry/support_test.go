package registry

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/warning"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

type warnings []string

func (w *warnings) AddWarning(_, text string) { *w = append(*w, text) }

func podOf(name string, hostUsers *bool) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: corev1.PodSpec{
		HostUsers: hostUsers, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
}

func deploymentOf(hostUsers *bool) *appsv1.Deployment {
	labels := map[string]string{"a": "b"}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d", Namespace: "default", UID: "u"}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podOf("", hostUsers).Spec}}}
}

// TestNotHonoured: what nobody acts on is refused with its path, of pods and of
// what makes them, and also of parts of this process; of kinds that upstream's
// own clients make it is said.
func TestNotHonoured(t *testing.T) {
	g, _ := open(t, t.TempDir())
	said := &warnings{}
	ctx := warning.WithWarningRecorder(t.Context(), said)
	create := func(ctx context.Context, o schema.Object) error {
		_, err := g.Create(ctx, schema.ByGVK(o.GetObjectKind().GroupVersionKind()), o, client.WriteOptions{})
		return err
	}
	pods, deployments := schema.ResourceFor[*corev1.Pod](), schema.ResourceFor[*appsv1.Deployment]()
	for _, c := range []struct {
		r    *schema.Resource
		o    schema.Object
		path string
	}{
		{pods, podOf("p", new(false)), "spec.hostUsers"},
		{deployments, deploymentOf(new(false)), "spec.template.spec.hostUsers"},
	} {
		c.o.GetObjectKind().SetGroupVersionKind(c.r.GVK())
		err := create(ctx, c.o)
		if !apierrors.IsInvalid(err) {
			t.Fatalf("%s: %v", c.r.Kind, err)
		}
		causes := err.(apierrors.APIStatus).Status().Details.Causes
		if len(causes) != 1 || causes[0].Field != c.path || causes[0].Type != "FieldValueForbidden" || !strings.Contains(causes[0].Message, "not honoured") {
			t.Errorf("%s: %+v", c.r.Kind, causes)
		}
	}
	ok := podOf("ok", new(true))
	ok.SetGroupVersionKind(pods.GVK())
	if err := create(ctx, ok); err != nil || len(*said) > 0 {
		t.Fatal(err, *said)
	}
	policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "n", Namespace: "default"}}
	policy.SetGroupVersionKind(schema.ResourceFor[*networkingv1.NetworkPolicy]().GVK())
	if err := create(ctx, policy); err != nil || len(*said) != 1 || !strings.HasPrefix((*said)[0], "spec: is not honoured") {
		t.Error(err, *said)
	}
}

// TestNotHonouredBefore: an object that was stored before its field was refused
// can be changed, report its status, and go.
func TestNotHonouredBefore(t *testing.T) {
	g, _ := open(t, t.TempDir())
	r := schema.ResourceFor[*appsv1.Deployment]()
	old := deploymentOf(new(false))
	old.SetGroupVersionKind(r.GVK())
	if _, err := g.store.Txn(t.Context(), []store.Write{{Resource: r, Key: schema.KeyOf(old), Object: old}}); err != nil {
		t.Fatal(err)
	}
	change := func(sub string, fn func(*appsv1.Deployment)) error {
		o, err := g.Get(t.Context(), r, schema.Key{Namespace: "default", Name: "d"})
		if err != nil {
			t.Fatal(err)
		}
		d := o.DeepCopyObject().(*appsv1.Deployment)
		fn(d)
		_, err = g.Update(t.Context(), r, d, client.WriteOptions{Subresource: sub})
		return err
	}
	if err := change("", func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(3)) }); err != nil {
		t.Error("unrelated change:", err)
	}
	if err := change("status", func(d *appsv1.Deployment) { d.Status.ObservedGeneration = 2 }); err != nil {
		t.Error("status:", err)
	}
	if err := change("", func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.SecurityContext = &corev1.PodSecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}}
	}); !apierrors.IsInvalid(err) || strings.Contains(err.Error(), "hostUsers") {
		t.Error("one more:", err)
	}
	if err := change("", func(d *appsv1.Deployment) { d.Spec.Template.Spec.HostUsers = nil }); err != nil {
		t.Error("mended:", err)
	}
	if err := change("", func(d *appsv1.Deployment) { d.Spec.Template.Spec.HostUsers = new(false) }); !apierrors.IsInvalid(err) {
		t.Error("set again:", err)
	}
}
