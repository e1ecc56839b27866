package admission

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

const whereWeb = `edit apps/web.yaml:10 (repository cluster, commit 1a2b3c4d5e6f by Jane <jane@example.com>); the API is read-only for what Git declares`

// change gets an object, changes it, and puts it back.
func change[T schema.Object](c *cluster, ctx context.Context, key schema.Key, sub string, fn func(T)) error {
	c.Helper()
	o, err := c.Get(ctx, schema.ResourceFor[T](), key)
	if err != nil {
		c.Fatal(err)
	}
	next := o.DeepCopyObject().(T)
	fn(next)
	_, err = c.Update(ctx, schema.ResourceFor[T](), next, client.WriteOptions{Subresource: sub, FieldManager: "test"})
	return err
}

func patch(c *cluster, ctx context.Context, t types.PatchType, data string, w client.WriteOptions) error {
	if w.FieldManager == "" {
		w.FieldManager = "test"
	}
	_, err := c.Patch(ctx, deployments, shop("web"), t, []byte(data), w)
	return err
}

// TestGuard tries writes on a Deployment that Git declares with its replicas,
// one after the other. Nothing that is refused may leave a trace.
func TestGuard(t *testing.T) {
	c := open(t, nil)
	c.commit("web", web(3))
	type deployment = *appsv1.Deployment
	web := shop("web")
	for _, tt := range []struct {
		name string
		do   func() error
		want string // text of the refusal; "" when it must pass
	}{
		{"delete", func() error { return c.Delete(admin, deployments, web, client.DeleteOptions{}) }, `deployments.apps "web" is forbidden: declared in Git: ` + whereWeb},
		{"delete a collection", func() error {
			return c.DeleteAll(admin, deployments, []*store.Item{{Key: web}}, client.DeleteOptions{})
		}, "declared in Git: " + whereWeb},
		{"delete, dry run", func() error { return c.Delete(admin, deployments, web, client.DeleteOptions{DryRun: true}) }, "declared in Git: " + whereWeb},
		{"update a declared field", func() error {
			return change(c, admin, web, "", func(d deployment) { d.Spec.Template.Spec.Containers[0].Image = "web:v2" })
		}, `deployments.apps "web" is forbidden: spec.template.spec.containers[name="web"].image declared in Git: ` + whereWeb},
		{"remove a declared label", func() error { return change(c, admin, web, "", func(d deployment) { delete(d.Labels, "tier") }) }, "metadata.labels.tier declared in Git: " + whereWeb},
		{"replace a declared container", func() error {
			return change(c, admin, web, "", func(d deployment) { d.Spec.Template.Spec.Containers[0].Name = "evil" })
		}, "declared in Git: " + whereWeb},
		{"scale", func() error {
			_, err := c.Update(admin, deployments, &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: autoscalingv1.ScaleSpec{Replicas: 0}},
				client.WriteOptions{Subresource: "scale", Key: web, FieldManager: "kubectl"})
			return err
		}, "spec.replicas declared in Git: " + whereWeb},
		{"patch the scale", func() error {
			return patch(c, admin, types.MergePatchType, `{"spec":{"replicas":9}}`, client.WriteOptions{Subresource: "scale"})
		}, "spec.replicas declared in Git: " + whereWeb},
		{"merge patch", func() error {
			return patch(c, admin, types.MergePatchType, `{"spec":{"replicas":9}}`, client.WriteOptions{})
		}, "spec.replicas declared in Git: " + whereWeb},
		{"JSON patch", func() error {
			return patch(c, admin, types.JSONPatchType, `[{"op":"remove","path":"/metadata/labels/tier"}]`, client.WriteOptions{})
		}, "metadata.labels.tier declared in Git: " + whereWeb},
		{"apply by force", func() error {
			return patch(c, admin, types.ApplyPatchType, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"replicas":9}}`, client.WriteOptions{FieldManager: "me", Force: true})
		}, "spec.replicas declared in Git: " + whereWeb},
		{"apply as Git", func() error {
			return patch(c, admin, types.ApplyPatchType, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","labels":{"tier":"front"}},"spec":{"replicas":9,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"web:v1"}]}}}}`, client.WriteOptions{FieldManager: "writ", Force: true})
		}, `field manager "writ" is reserved`},
		{"update as Git", func() error {
			return patch(c, admin, types.MergePatchType, `{"metadata":{"annotations":{"a":"b"}}}`, client.WriteOptions{FieldManager: "writ"})
		}, `field manager "writ" is reserved`},
		{"forget all managers", func() error {
			return patch(c, admin, types.MergePatchType, `{"metadata":{"managedFields":[{}]}}`, client.WriteOptions{})
		}, "declared in Git: " + whereWeb},
		{"forget Git as manager", func() error {
			return change(c, admin, web, "", func(d deployment) {
				d.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "me", Operation: "Update", APIVersion: "apps/v1", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:paused":{}}}`)}}}
			})
		}, "declared in Git: " + whereWeb},
		{"delete under the name of the reconciler", func() error {
			return c.Delete(as("system:writ:reconciler", user.SystemPrivilegedGroup), deployments, web, client.DeleteOptions{})
		}, "declared in Git: " + whereWeb},
		{"delete under the name of the controllers", func() error {
			return c.Delete(as(user.KubeControllerManager, user.SystemPrivilegedGroup), deployments, web, client.DeleteOptions{})
		}, "declared in Git: " + whereWeb},
		{"delete the namespace", func() error {
			return c.Delete(admin, namespaces, schema.Key{Name: "shop"}, client.DeleteOptions{})
		}, `namespaces "shop" is forbidden: 1 objects in it are declared in Git, the first in apps/web.yaml:10`},
		{"a controller scales", func() error {
			return patch(c, controller, types.MergePatchType, `{"spec":{"replicas":9}}`, client.WriteOptions{})
		}, "spec.replicas declared in Git: " + whereWeb},
		{"a node deletes", func() error { return c.Delete(nodeA, deployments, web, client.DeleteOptions{}) }, "declared in Git: " + whereWeb},

		{"label that Git leaves out", func() error { return change(c, admin, web, "", func(d deployment) { d.Labels["seen"] = "yes" }) }, ""},
		{"annotation of a controller", func() error {
			return change(c, controller, web, "", func(d deployment) { d.Annotations = map[string]string{"deployment.kubernetes.io/revision": "1"} })
		}, ""},
		{"field that Git leaves out", func() error { return change(c, admin, web, "", func(d deployment) { d.Spec.Paused = true }) }, ""},
		{"defaulted field that Git leaves out", func() error {
			return patch(c, admin, types.MergePatchType, `{"spec":{"progressDeadlineSeconds":60}}`, client.WriteOptions{})
		}, ""},
		{"same value", func() error {
			return patch(c, admin, types.MergePatchType, `{"spec":{"replicas":3}}`, client.WriteOptions{})
		}, ""},
		{"second container", func() error {
			return patch(c, admin, types.StrategicMergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"side:v1"}]}}}}`, client.WriteOptions{})
		}, `spec.template.spec.containers[name="side"]`},
		{"finalizer", func() error {
			return change(c, admin, web, "", func(d deployment) { d.Finalizers = []string{"example.com/hold"} })
		}, ""},
		{"no finalizer", func() error { return change(c, admin, web, "", func(d deployment) { d.Finalizers = nil }) }, ""},
		{"status", func() error {
			return change(c, controller, web, "status", func(d deployment) { d.Status.Replicas, d.Status.ReadyReplicas = 3, 3 })
		}, ""},
		{"Git itself", func() error {
			return patch(c, git, types.ApplyPatchType, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","labels":{"tier":"front"}},"spec":{"replicas":4,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"web:v1"}]}}}}`, client.WriteOptions{FieldManager: "writ", Force: true})
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, _ := c.Get(admin, deployments, web)
			err := tt.do()
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got  %v\nwant %s", err, tt.want)
			}
			if after, _ := c.Get(admin, deployments, web); after.GetResourceVersion() != before.GetResourceVersion() {
				t.Errorf("the object was changed all the same")
			}
		})
	}
	d, err := c.Get(admin, deployments, web)
	if err != nil {
		t.Fatal(err)
	}
	got := d.(deployment)
	image := map[string]string{}
	for _, ctr := range got.Spec.Template.Spec.Containers {
		image[ctr.Name] = ctr.Image
	}
	if got.Labels["tier"] != "front" || *got.Spec.Replicas != 4 || image["web"] != "web:v1" {
		t.Errorf("object at the end: labels %v, %d replicas, images %v", got.Labels, *got.Spec.Replicas, image)
	}
}

func TestGuardLeavesReplicasToAutoscaler(t *testing.T) {
	c := open(t, nil)
	c.commit("web", web(-1))
	for _, ctx := range []context.Context{controller, admin} {
		if err := patch(c, ctx, types.MergePatchType, `{"spec":{"replicas":9}}`, client.WriteOptions{Subresource: "scale"}); err != nil {
			t.Error(err)
		}
	}
	if err := c.Delete(admin, deployments, shop("web"), client.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("delete: %v", err)
	}
}

func TestGuardLetsGoWhatGitDrops(t *testing.T) {
	c := open(t, nil)
	c.commit("web", web(3))
	c.commit("web") // the file declares nothing any more
	// The object is still recorded as Git's, but no file declares it.
	if err := patch(c, admin, types.MergePatchType, `{"spec":{"replicas":9}}`, client.WriteOptions{}); err != nil {
		t.Errorf("patch: %v", err)
	}
	if err := c.Delete(admin, deployments, shop("web"), client.DeleteOptions{}); err != nil {
		t.Errorf("delete: %v", err)
	}
}

func TestGuardNamespaceThatEnds(t *testing.T) {
	c := open(t, nil)
	c.commit("web", web(3))
	// The reconciler deletes the namespace with all in it.
	if err := c.Delete(git, namespaces, schema.Key{Name: "shop"}, client.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(admin, deployments, shop("web"), client.DeleteOptions{}); err != nil {
		t.Errorf("delete in an ending namespace: %v", err)
	}
}

func TestGuardControllersDelete(t *testing.T) {
	c := open(t, nil)
	c.create(system, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "default"}})
	c.commit("pod", fields{"apiVersion": "v1", "kind": "Pod", "metadata": fields{"namespace": "shop", "name": "lone", "finalizers": []any{"example.com/hold"}},
		"spec": fields{"nodeName": "a", "containers": []any{fields{"name": "c", "image": "i"}}}})
	lone := shop("lone")
	err := func() error {
		_, err := c.Create(admin, pods, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "lone"}}, client.WriteOptions{Subresource: "eviction", Key: lone})
		return err
	}()
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "declared in Git: edit apps/pod.yaml:10") {
		t.Errorf("eviction by a person: %v", err)
	}
	if err := c.Delete(nodeA, pods, lone, client.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("deletion by its node: %v", err)
	}
	if err := c.Delete(controller, pods, lone, client.DeleteOptions{}); err != nil {
		t.Fatalf("deletion by a controller: %v", err)
	}
	// From now on it is going, and its node may end it.
	now := int64(0)
	if err := c.Delete(nodeA, pods, lone, client.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Errorf("end by its node: %v", err)
	}
}

func TestGuardNamesOfGit(t *testing.T) {
	c := open(t, nil)
	c.commit("web", web(3))
	if err := c.Delete(git, deployments, shop("web"), client.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
	}}
	if _, err := c.Create(admin, deployments, d, client.WriteOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), whereWeb) {
		t.Errorf("create under a name that Git declares: %v", err)
	}
	d.Name = "other"
	d.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "writ", Operation: "Apply", APIVersion: "apps/v1", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:replicas":{}}}`)}}}
	if _, err := c.Create(admin, deployments, d, client.WriteOptions{}); err != nil && !apierrors.IsForbidden(err) {
		t.Errorf("create in the name of Git: %v", err)
	} else if err == nil {
		if o, _ := c.Get(admin, deployments, shop("other")); gitFields(o) != nil {
			t.Errorf("somebody made an object in the name of Git")
		}
	}
}

func TestGuardRecords(t *testing.T) {
	c := open(t, nil)
	c.commit("web", web(3))
	inv := schema.Key{Name: "cluster-web"}
	if err := c.Delete(admin, inventories, inv, client.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("delete an inventory: %v", err)
	}
	err := change(c, admin, inv, "", func(i *v1alpha1.Inventory) { i.Spec.Objects = []v1alpha1.InventoryObject{} })
	if !apierrors.IsForbidden(err) {
		t.Errorf("empty an inventory: %v", err)
	}
	commit := &v1alpha1.Commit{ObjectMeta: metav1.ObjectMeta{Name: "cluster-1a2b3c4d5e6f"}, Spec: v1alpha1.CommitSpec{Repository: "cluster", SHA: "1a2b3c4d5e6f708192a3b4c5d6e7f80912345678", Time: metav1.Now()}}
	if _, err := c.Create(admin, schema.ResourceFor[*v1alpha1.Commit](), commit, client.WriteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("forge a commit: %v", err)
	}
}

// TestGuardRefsOfGit: where the branches are is decided by pushes, not by who may
// write ConfigMaps, nor by a commit that declares it.
func TestGuardRefsOfGit(t *testing.T) {
	of := func(namespace, name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{"refs": "{}"}}
	}
	g := NewGuard(client.NewFake().Cache())
	close(g.ready)
	refs := of("kube-system", "writ-git-cluster")
	glass := &user.DefaultInfo{Name: identity.Admin, Groups: []string{user.SystemPrivilegedGroup}}
	anyone := &user.DefaultInfo{Name: "jane", Groups: []string{user.SystemPrivilegedGroup}}
	for _, tt := range []struct {
		name    string
		user    user.Info
		verb    string
		o       *corev1.ConfigMap
		refused bool
	}{
		{"an administrator", anyone, "create", refs, true},
		{"an administrator deletes", anyone, "delete", refs, true},
		{"one who names himself the server", &user.DefaultInfo{Name: identity.APIServer}, "create", refs, true},
		{"a commit", identity.System(identity.Reconciler), "create", refs, true},
		{"the server", identity.System(identity.APIServer), "create", refs, false},
		{"break-glass", glass, "create", refs, false},
		{"another namespace", anyone, "create", of("shop", "writ-git-cluster"), false},
		{"another name", anyone, "create", of("kube-system", "git"), false},
	} {
		a := &registry.Attributes{Verb: tt.verb, Resource: schema.ResourceFor[*corev1.ConfigMap](), Key: schema.KeyOf(tt.o), Object: tt.o, User: tt.user}
		if tt.verb == "delete" {
			a.Object, a.Old = nil, tt.o
		}
		if err := g.Validate(t.Context(), a); (err != nil) != tt.refused {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// TestGuardFollowsMoves: an object moves to another file, in either order of
// events, and a file with many objects is emptied.
func TestGuardFollowsMoves(t *testing.T) {
	object := func(name string) v1alpha1.InventoryObject {
		return v1alpha1.InventoryObject{Version: "v1", Kind: "ConfigMap", Namespace: "shop", Name: name, Line: 1}
	}
	file := func(name string, objects ...v1alpha1.InventoryObject) *v1alpha1.Inventory {
		return &v1alpha1.Inventory{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.InventorySpec{File: name, Objects: objects}}
	}
	where := func(x *inventory, name string) string {
		p, ok := x.find(configMaps, shop(name))
		if !ok {
			return ""
		}
		return p.inventory.Name
	}
	for _, newFirst := range []bool{true, false} {
		x := newInventory()
		x.observe(client.Event{Type: client.Added, Object: file("old", object("a"), object("b"))})
		leave := client.Event{Type: client.Modified, Object: file("old", object("b"))}
		enter := client.Event{Type: client.Added, Object: file("new", object("a"))}
		if newFirst {
			x.observe(enter)
			x.observe(leave)
		} else {
			x.observe(leave)
			x.observe(enter)
		}
		if a, b := where(x, "a"), where(x, "b"); a != "new" || b != "old" {
			t.Errorf("new first %v: a in %q, b in %q", newFirst, a, b)
		}
		if _, n := first(x, x.namespaces, "shop", func(k declared) string { return k.namespace }); n != 2 {
			t.Errorf("%d objects in the namespace, want 2", n)
		}
		x.observe(client.Event{Type: client.Deleted, Object: file("new", object("a"))})
		x.observe(client.Event{Type: client.Deleted, Object: file("old", object("b"))})
		if _, n := first(x, x.namespaces, "shop", func(k declared) string { return k.namespace }); n != 0 || len(x.places) != 0 || len(x.files) != 0 {
			t.Errorf("something is left: %v", x)
		}
	}
}

func TestGuardExplains(t *testing.T) {
	c := open(t, nil)
	c.commit("web", web(3))
	viewer := &user.DefaultInfo{Name: "viewer"}
	for _, tt := range []struct {
		verb, group, resource, sub, name, want string
	}{
		{"delete", "apps", "deployments", "", "web", "declared in Git: " + whereWeb},
		{"patch", "apps", "deployments", "scale", "web", "declared in Git: " + whereWeb},
		{"update", "apps", "deployments", "status", "web", ""},
		{"get", "apps", "deployments", "", "web", ""},
		{"delete", "apps", "deployments", "", "other", ""},
		{"delete", "example.com", "things", "", "web", ""},
	} {
		got := c.admission.Guard.Explain(authorizer.AttributesRecord{User: viewer, Verb: tt.verb, APIGroup: tt.group, APIVersion: "v1",
			Resource: tt.resource, Subresource: tt.sub, Namespace: "shop", Name: tt.name, ResourceRequest: true})
		if got != tt.want {
			t.Errorf("%s %s/%s: %q, want %q", tt.verb, tt.resource, tt.name, got, tt.want)
		}
	}
}

func BenchmarkInventoryChange(b *testing.B) {
	x := newInventory()
	for i := range 50_000 {
		x.observe(client.Event{Type: client.Added, Object: &v1alpha1.Inventory{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("f", i)},
			Spec: v1alpha1.InventorySpec{Objects: []v1alpha1.InventoryObject{{Kind: "ConfigMap", Namespace: fmt.Sprint("ns", i%500), Name: fmt.Sprint("o", i)}}}}})
	}
	b.ReportAllocs()
	for b.Loop() {
		x.observe(client.Event{Type: client.Modified, Object: &v1alpha1.Inventory{ObjectMeta: metav1.ObjectMeta{Name: "f7"},
			Spec: v1alpha1.InventorySpec{Objects: []v1alpha1.InventoryObject{{Kind: "ConfigMap", Namespace: "ns7", Name: "o7"}}}}})
	}
}
