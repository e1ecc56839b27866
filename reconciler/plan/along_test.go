package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// somebodys is a live object that Git does not declare.
func somebodys(o schema.Object, kind, namespace, name string, owners ...schema.Object) schema.Object {
	o.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetUID(types.UID(kind + "/" + namespace + "/" + name))
	var refs []metav1.OwnerReference
	for i, owner := range owners {
		gvk := owner.GetObjectKind().GroupVersionKind()
		refs = append(refs, metav1.OwnerReference{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: new(i == 0)})
	}
	o.SetOwnerReferences(refs)
	return o
}

const (
	shopNamespace = "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}\n"
	shopApp       = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}}}
`
)

func messages(p *Plan) (out []string) {
	for _, c := range p.Consequences {
		out = append(out, c.Object+": "+c.Message)
	}
	return out
}

// TestTakesAlong: a plan says what Kubernetes deletes with what it deletes.
func TestTakesAlong(t *testing.T) {
	w := world{t, client.NewFake()}
	w.apply([]Unit{unit(t, "ns.yaml", shopNamespace), unit(t, "web.yaml", shopApp), unit(t, "keep.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: keep}}\n")})
	web, _ := w.fake.Cache().Get(schema.ByGVK(appsv1.SchemeGroupVersion.WithKind("Deployment")), schema.Key{Namespace: "default", Name: "web"})
	pod := somebodys(&corev1.Pod{}, "Pod", "default", "web-1", web)
	keep, _ := w.fake.Cache().Get(schema.ResourceFor[*corev1.ConfigMap](), schema.Key{Namespace: "default", Name: "keep"})
	volume := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete}}
	for _, o := range []schema.Object{
		pod,
		somebodys(&corev1.Secret{}, "Secret", "default", "of-the-pod", pod),
		somebodys(&corev1.Secret{}, "Secret", "default", "of-two", pod, keep), // the other owner stays
		somebodys(&corev1.ConfigMap{}, "ConfigMap", "shop", "a"),
		somebodys(&corev1.ConfigMap{}, "ConfigMap", "shop", "b"),
		somebodys(&corev1.ConfigMap{}, "ConfigMap", "shop", "kube-root-ca.crt"),
		somebodys(&corev1.ServiceAccount{}, "ServiceAccount", "shop", "default"),
		somebodys(&corev1.Event{}, "Event", "shop", "e"),
		somebodys(&corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "v"}}, "PersistentVolumeClaim", "shop", "data"),
		somebodys(volume, "PersistentVolume", "", "v"),
		somebodys(&corev1.ConfigMap{}, "ConfigMap", "other", "a"),
	} {
		w.fake.Put(o)
	}
	in := w.input([]Unit{unit(t, "keep.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: keep}}\n")})
	p := Compute(in)
	want := []string{
		"Deployment/default/web: takes along: 1 Pod, 1 Secret",
		"Namespace/shop: everything in the namespace is deleted, whether Git declares it or not",
		"Namespace/shop: takes along: 2 ConfigMaps, 1 PersistentVolumeClaim",
		"PersistentVolumeClaim/shop/data: goes along with Namespace/shop: its data is deleted (reclaim policy Delete)",
	}
	if got := messages(p); len(p.Findings) > 0 || !slices.Equal(got, want) {
		t.Errorf("%v\n%s", p.Findings, strings.Join(got, "\n"))
	}
}

// TestAlongBudget: what goes along is held against the deletion budget, but for
// what built-in controllers have made.
func TestAlongBudget(t *testing.T) {
	w := world{t, client.NewFake()}
	keep := unit(t, "keep.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: keep}}\n")
	w.apply([]Unit{keep, unit(t, "ns.yaml", shopNamespace), unit(t, "web.yaml", shopApp)})
	web, _ := w.fake.Cache().Get(schema.ByGVK(appsv1.SchemeGroupVersion.WithKind("Deployment")), schema.Key{Namespace: "default", Name: "web"})
	for i := range 60 {
		w.fake.Put(somebodys(&corev1.Pod{}, "Pod", "default", fmt.Sprint("web-", i), web))
	}
	in := w.input([]Unit{keep})
	in.AllowDeletes = false
	if p := Compute(in); len(p.Findings) > 0 {
		t.Errorf("pods of a Deployment count: %v", p.Findings)
	}
	for i := range 9 {
		w.fake.Put(somebodys(&corev1.Secret{}, "Secret", "shop", fmt.Sprint("s", i)))
	}
	in = w.input([]Unit{keep})
	in.AllowDeletes = false
	p := Compute(in)
	if len(p.Findings) != 1 || p.Findings[0].Rule != "TooManyDeletes" || !strings.Contains(p.Findings[0].Message, "goes along (9) the commit deletes 11 of 12 objects") {
		t.Errorf("findings: %v", p.Findings)
	}
}

// TestAlongProtected: what is protected, or is to stay, does not go along with
// something else either, whatever the commit allows.
func TestAlongProtected(t *testing.T) {
	for _, annotation := range []string{"writ.dev/protect=true", "writ.dev/prune=disabled"} {
		w := world{t, client.NewFake()}
		keep := unit(t, "keep.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: keep}}\n")
		w.apply([]Unit{keep, unit(t, "ns.yaml", shopNamespace)})
		o := somebodys(&corev1.Secret{}, "Secret", "shop", "s")
		key, value, _ := strings.Cut(annotation, "=")
		o.SetAnnotations(map[string]string{key: value})
		w.fake.Put(o)
		p := Compute(w.input([]Unit{keep}))
		if len(p.Findings) != 1 || p.Findings[0].Rule != "Protected" || p.Findings[0].File != "ns.yaml" || !strings.Contains(p.Findings[0].Message, "Secret/shop/s would be deleted along with Namespace/shop") {
			t.Errorf("%s: %v", annotation, p.Findings)
		}
	}
}

// TestInUseOwner: an object that is declared does not go along with an owner
// that is not any more.
func TestInUseOwner(t *testing.T) {
	w := world{t, client.NewFake()}
	keep := unit(t, "keep.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: keep}}\n")
	w.apply([]Unit{keep, unit(t, "web.yaml", shopApp)})
	web, _ := w.fake.Cache().Get(schema.ByGVK(appsv1.SchemeGroupVersion.WithKind("Deployment")), schema.Key{Namespace: "default", Name: "web"})
	was, _ := w.fake.Cache().Get(schema.ResourceFor[*corev1.ConfigMap](), schema.Key{Namespace: "default", Name: "keep"})
	o := was.DeepCopyObject().(schema.Object)
	o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: web.GetUID()}})
	w.fake.Put(o)
	if p := Compute(w.input([]Unit{keep})); len(p.Findings) != 1 || p.Findings[0].Rule != "InUse" {
		t.Errorf("findings: %v", p.Findings)
	}
}
