package cli

import (
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// ofWeb are the objects of a Deployment that Git declares, and a Pod of nobody.
func ofWeb() (*appsv1.Deployment, *appsv1.ReplicaSet, *corev1.Pod, *corev1.Pod) {
	meta := func(name, kind, owner string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Name: name, Namespace: "shop", UID: types.UID(name)}
		if owner != "" {
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: owner, UID: types.UID(owner), Controller: new(true)}}
		}
		return m
	}
	d := &appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: meta("web", "", "")}
	rs := &appsv1.ReplicaSet{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"}, ObjectMeta: meta("web-5d8c", "Deployment", "web")}
	p := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: meta("web-5d8c-x2", "ReplicaSet", "web-5d8c")}
	p.Labels = map[string]string{"pod-template-hash": "5d8c"}
	lone := &corev1.Pod{TypeMeta: p.TypeMeta, ObjectMeta: meta("lone", "", "")}
	return d, rs, p, lone
}

// TestWhyFollowsOwners: a Pod is as the line of the Deployment says.
func TestWhyFollowsOwners(t *testing.T) {
	t.Chdir(t.TempDir())
	d, rs, p, lone := ofWeb()
	inv := &v1alpha1.Inventory{TypeMeta: metav1.TypeMeta{APIVersion: "writ.dev/v1alpha1", Kind: "Inventory"}, ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec: v1alpha1.InventorySpec{Repository: "cluster", File: "web.yaml", Commit: strings.Repeat("1", 40), Author: "Ada <a@b>",
			Objects: []v1alpha1.InventoryObject{{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: "web", Line: 7}}}}
	f := client.NewFake(d, rs, p, lone, inv)
	for _, c := range []struct{ name, want string }{
		{"pod/web-5d8c-x2", "Deployment/shop/web\n  made         Pod/shop/web-5d8c-x2, made of ReplicaSet/shop/web-5d8c\n  declared in  web.yaml:7"},
		{"rs/web-5d8c", "made         ReplicaSet/shop/web-5d8c\n  declared in  web.yaml:7"},
		{"pod/web-5d8c-x2.spec.containers[0].image", "field        spec.template.spec.containers[0].image"},
		{"rs/web-5d8c.spec.replicas", "field        spec.replicas"},
		{"pod/lone", "Pod/shop/lone is not declared in Git\n"},
	} {
		var b strings.Builder
		if err := Why(t.Context(), f, Options{}, "", c.name, &b); err != nil || !strings.Contains(b.String(), c.want) {
			t.Errorf("%s: %v\n%s", c.name, err, b.String())
		}
	}
	if err := Why(t.Context(), f, Options{}, "", "pod/nowhere", &strings.Builder{}); err == nil || errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), "neither declared in Git nor in the cluster") {
		t.Errorf("of an object that is nowhere it says %v", err)
	}
}

// TestStatusOfAll: every repository is told of, with the cause of what is
// unwell, and a failed one counts.
func TestStatusOfAll(t *testing.T) {
	_, _, p, _ := ofWeb()
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}}}
	repository := func(name, sha string, ready metav1.ConditionStatus) *v1alpha1.Repository {
		return &v1alpha1.Repository{TypeMeta: metav1.TypeMeta{APIVersion: "writ.dev/v1alpha1", Kind: "Repository"}, ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:   v1alpha1.RepositorySpec{URL: "https://git.example.com/" + name},
			Status: v1alpha1.RepositoryStatus{Head: sha, Applied: sha, Conditions: []metav1.Condition{{Type: "Ready", Status: ready, Message: "cannot be read"}}}}
	}
	sha := strings.Repeat("1", 40)
	c := &v1alpha1.Commit{TypeMeta: metav1.TypeMeta{APIVersion: "writ.dev/v1alpha1", Kind: "Commit"}, ObjectMeta: metav1.ObjectMeta{Name: "cluster-" + sha[:12]},
		Spec: v1alpha1.CommitSpec{Repository: "cluster", SHA: sha, Message: "first"},
		Status: v1alpha1.CommitStatus{Phase: v1alpha1.CommitApplied, AppliedTime: &metav1.MicroTime{}, Objects: 42, Ready: 21,
			Unhealthy: []v1alpha1.ObjectHealth{{Object: "Deployment/shop/web", Health: "Progressing", Message: "0 of 1 pods are available"}}}}
	f := client.NewFake(repository("cluster", sha, metav1.ConditionTrue), repository("shop", "", metav1.ConditionTrue), c, p)
	var b strings.Builder
	if err := Status(t.Context(), f, Options{}, &b); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"0 of 1 pods are available: Pod/shop/web-5d8c-x2: container web: ImagePullBackOff: no such image\n", "... and 20 more\n", "\nrepository  shop  https://"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("without %q:\n%s", want, b.String())
		}
	}
	f.Put(repository("shop", "", metav1.ConditionFalse))
	if err := Status(t.Context(), f, Options{}, &b); !errors.Is(err, ErrUnwell) {
		t.Errorf("a repository that cannot be read: %v", err)
	}
	if err := Status(t.Context(), f, Options{Repository: "cluster"}, &b); err != nil {
		t.Errorf("the other repository counts where it was not asked for: %v", err)
	}
}

// TestRenderedBy: an object of a chart says which file has the release.
func TestRenderedBy(t *testing.T) {
	inv := &v1alpha1.Inventory{Spec: v1alpha1.InventorySpec{Repository: "cluster", File: "shop.yaml"}}
	o := originOf(inv, &v1alpha1.InventoryObject{Kind: "Deployment", Name: "web", File: "chart/templates/web.yaml", Line: 3})
	var b strings.Builder
	o.write(&b, Options{})
	if text := b.String(); !strings.Contains(text, "declared in  chart/templates/web.yaml:3") || !strings.Contains(text, "rendered by  shop.yaml\n") {
		t.Error(text)
	}
	if o := originOf(inv, &v1alpha1.InventoryObject{Kind: "Deployment", Name: "web", File: "shop.yaml", Line: 3}); o.Unit != "" {
		t.Errorf("an object that is declared by itself is rendered by %s", o.Unit)
	}
}
