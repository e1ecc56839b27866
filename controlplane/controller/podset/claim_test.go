package podset

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
)

// TestClaim: an owner gets what it has and what it may adopt, by name, lets go
// of what it no longer selects, and leaves what others have alone, also what
// lies elsewhere and says that it is its own.
func TestClaim(t *testing.T) {
	f := client.NewFake()
	web := map[string]string{"app": "web"}
	owner, err := client.Create(t.Context(), f, &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
	}, client.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	put := func(namespace, name string, controller types.UID, l map[string]string) {
		t.Helper()
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: l}}
		if yes := true; controller != "" {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: controller, Controller: &yes}}
		}
		if _, err := client.Create(t.Context(), f, p, client.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	put("shop", "b", owner.UID, web)
	put("shop", "a", "", web)
	put("shop", "c", owner.UID, web)
	put("shop", "lost", owner.UID, map[string]string{"app": "other"})
	put("shop", "free", "", map[string]string{"app": "other"})
	put("shop", "of-another", "u", web)
	put("elsewhere", "foreign", owner.UID, web)
	put("elsewhere", "free", "", web)

	mine, err := Claim[*corev1.Pod](t.Context(), f, f.Cache(), owner, labels.SelectorFromSet(web))
	if err != nil {
		t.Fatal(err)
	}
	var names string
	for _, p := range mine {
		names += p.Namespace + "/" + p.Name + " "
		if ref := metav1.GetControllerOf(p); ref == nil || ref.UID != owner.UID {
			t.Errorf("%s is claimed, and its controller is %v", p.Name, ref)
		}
	}
	if want := "shop/a shop/b shop/c "; names != want {
		t.Errorf("claimed %s, want %s", names, want)
	}
	if n := len(PodsOf(f.Cache(), owner.UID)); n != 4 { // a, b, c, and the foreign one
		t.Errorf("%d pods refer to the owner, want 4", n)
	}
}

// TestClaimLeavesWhatGitDeclares: nobody adopts a pod that Git declares, except
// by Git's own word.
func TestClaimLeavesWhatGitDeclares(t *testing.T) {
	web := map[string]string{"app": "web"}
	owner := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u"}}
	yes := true
	byGit := []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "u", Controller: &yes}}
	git := metav1.ManagedFieldsEntry{Manager: "writ", Operation: metav1.ManagedFieldsOperationApply}
	for _, tt := range []struct {
		name   string
		fields []metav1.ManagedFieldsEntry
		owners []metav1.OwnerReference
		want   decision
	}{
		{"nobody's", nil, nil, toAdopt},
		{"somebody's", []metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply}}, nil, toAdopt},
		{"Git's status", []metav1.ManagedFieldsEntry{{Manager: "writ", Operation: metav1.ManagedFieldsOperationApply, Subresource: "status"}}, nil, toAdopt},
		{"Git's", []metav1.ManagedFieldsEntry{git}, nil, ignored},
		{"Git's with its owner", []metav1.ManagedFieldsEntry{git}, byGit, claimed},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p", Labels: web, ManagedFields: tt.fields, OwnerReferences: tt.owners}}
		if got := claim(owner, p, labels.SelectorFromSet(web)); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
