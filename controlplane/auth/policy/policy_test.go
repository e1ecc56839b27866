package policy

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

func TestObjects(t *testing.T) {
	seen := map[string]bool{}
	roles := map[string]bool{}
	for _, o := range Objects() {
		r := schema.ResourceOf(o)
		id := r.Kind + " " + schema.KeyOf(o).String()
		if seen[id] {
			t.Errorf("%s twice", id)
		}
		seen[id] = true
		if o.GetAnnotations()[rbacv1.AutoUpdateAnnotationKey] != "true" || o.GetLabels()["kubernetes.io/bootstrapping"] != "rbac-defaults" || o.GetObjectKind().GroupVersionKind() != r.GVK() {
			t.Errorf("%s: metadata %v", id, o)
		}
		switch o := o.(type) {
		case *rbacv1.ClusterRole, *rbacv1.Role:
			roles[o.GetName()] = true
		case *rbacv1.ClusterRoleBinding:
			if !roles[o.RoleRef.Name] {
				t.Errorf("%s binds %s, which is none of ours", id, o.RoleRef.Name)
			}
		case *rbacv1.RoleBinding:
			if !roles[o.RoleRef.Name] {
				t.Errorf("%s binds %s, which is none of ours", id, o.RoleRef.Name)
			}
		}
	}
}

func TestEnsure(t *testing.T) {
	f := client.NewFake()
	ensure := func() int {
		t.Helper()
		before := f.Writes()
		if err := Ensure(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		return f.Writes() - before
	}
	if n := ensure(); n != len(Ground())+len(Objects()) {
		t.Errorf("%d writes into an empty store, want %d", n, len(Ground())+len(Objects()))
	}
	if n := ensure(); n != 0 {
		t.Errorf("%d writes the second time", n)
	}

	// What people do to default objects.
	view := get[*rbacv1.ClusterRole](t, f, "system:aggregate-to-view")
	extra := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{"example.com"}, Resources: []string{"things"}}
	view.Rules = append(view.Rules[1:], extra) // one taken away, one added
	f.Put(view)
	frozen := get[*rbacv1.ClusterRole](t, f, "system:basic-user")
	frozen.Annotations[rbacv1.AutoUpdateAnnotationKey], frozen.Rules = "false", nil
	f.Put(frozen)
	declared := get[*rbacv1.ClusterRole](t, f, "system:heapster")
	declared.Rules, declared.ManagedFields = nil, []metav1.ManagedFieldsEntry{{Manager: "writ", Operation: metav1.ManagedFieldsOperationApply}}
	f.Put(declared)
	moved := get[*rbacv1.ClusterRoleBinding](t, f, "system:discovery")
	moved.RoleRef.Name = "cluster-admin"
	f.Put(moved)
	lost := get[*rbacv1.ClusterRoleBinding](t, f, "cluster-admin")
	lost.Subjects = []rbacv1.Subject{person("root")}
	f.Put(lost)

	if n := ensure(); n != 4 { // an update, a deletion and a creation, an update
		t.Errorf("%d writes, want 4", n)
	}
	view = get[*rbacv1.ClusterRole](t, f, "system:aggregate-to-view")
	if !covers(view.Rules, append(viewRules(), extra)) {
		t.Error("view lacks rules")
	}
	if r := get[*rbacv1.ClusterRole](t, f, "system:basic-user"); len(r.Rules) != 0 {
		t.Error("an object was changed that says autoupdate=false")
	}
	if r := get[*rbacv1.ClusterRole](t, f, "system:heapster"); len(r.Rules) != 0 {
		t.Error("an object was changed that Git declares")
	}
	if b := get[*rbacv1.ClusterRoleBinding](t, f, "system:discovery"); b.RoleRef.Name != "system:discovery" {
		t.Errorf("bound to %s", b.RoleRef.Name)
	}
	if b := get[*rbacv1.ClusterRoleBinding](t, f, "cluster-admin"); len(b.Subjects) != 2 || !slices.Contains(b.Subjects, group("system:masters")) {
		t.Errorf("subjects %v", b.Subjects)
	}
	if n := ensure(); n != 0 {
		t.Errorf("%d writes at the end", n)
	}
}

// oneByOne is a client that knows no transactions.
type oneByOne struct{ client.Interface }

func TestEnsureOneByOne(t *testing.T) {
	f := client.NewFake()
	if err := Ensure(t.Context(), oneByOne{f}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Get[*corev1.Namespace](t.Context(), f, schema.Key{Name: "kube-system"}); err != nil {
		t.Error(err)
	}
	f.Reject(func(client.Verb, *schema.Resource, string, schema.Object) error {
		return apierrors.NewServiceUnavailable("no")
	})
	moved := get[*rbacv1.ClusterRoleBinding](t, f, "system:discovery")
	moved.RoleRef.Name = "cluster-admin"
	f.Put(moved)
	if err := Ensure(t.Context(), oneByOne{f}); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("got %v", err)
	}
}

func covers(have, want []rbacv1.PolicyRule) bool { return len(extendRules(have, want)) == len(have) }

func get[T schema.Object](t *testing.T, f *client.Fake, name string) T {
	t.Helper()
	o, err := client.Get[T](t.Context(), f, schema.Key{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return o.DeepCopyObject().(T)
}
