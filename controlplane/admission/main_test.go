package admission

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

var (
	namespaces  = schema.ResourceFor[*corev1.Namespace]()
	pods        = schema.ResourceFor[*corev1.Pod]()
	configMaps  = schema.ResourceFor[*corev1.ConfigMap]()
	deployments = schema.ResourceFor[*appsv1.Deployment]()
	inventories = schema.ResourceFor[*v1alpha1.Inventory]()
)

// cluster is a real registry over a real store, with the chain in front.
type cluster struct {
	*testing.T
	*registry.Registry
	admission *Admission
}

// open runs a cluster with the namespace shop until the test ends.
func open(t *testing.T, roles Roles) *cluster {
	t.Helper()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	s := store.New(store.Config{Dir: t.TempDir(), Log: log, Tick: 10 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	g := registry.New(registry.Config{Store: s, Log: log})
	a := New(Config{Cache: g.Cache(), Roles: roles})
	g.SetAdmission(a.Plugins()...)
	done := make(chan error, 2)
	go func() { done <- s.Run(ctx) }()
	select {
	case <-s.Ready():
	case err := <-done:
		t.Fatalf("store ended: %v", err)
	}
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-done; err != nil {
				t.Errorf("ended: %v", err)
			}
		}
	})
	c := &cluster{t, g, a}
	for _, name := range []string{"default", "kube-system", "kube-node-lease", "shop"} {
		c.create(system, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return c
}

// as returns a context of a user.
func as(name string, groups ...string) context.Context {
	return request.WithUser(context.Background(), &user.DefaultInfo{Name: name, Groups: groups})
}

// Users of the tests. The admin has every right: what refuses is admission.
var (
	admin      = as("jane", user.SystemPrivilegedGroup)
	system     = request.WithUser(context.Background(), identity.System(identity.APIServer))
	git        = request.WithUser(context.Background(), identity.System(identity.Reconciler))
	controller = request.WithUser(context.Background(), identity.System(user.KubeControllerManager))
	nodeA      = as("system:node:a", user.NodesGroup)
)

func (c *cluster) create(ctx context.Context, o schema.Object) schema.Object {
	c.Helper()
	out, err := c.Create(ctx, schema.ResourceOf(o), o, client.WriteOptions{FieldManager: "test"})
	if err != nil {
		c.Fatal(err)
	}
	return out
}

// commit applies objects as the reconciler does: one transaction, with the
// inventory of the file that declares them, the n-th at line 10n.
func (c *cluster) commit(file string, objects ...map[string]any) {
	c.Helper()
	inv := &v1alpha1.Inventory{
		TypeMeta:   metav1.TypeMeta{APIVersion: "writ.dev/v1alpha1", Kind: "Inventory"},
		ObjectMeta: metav1.ObjectMeta{Name: "cluster-" + file},
		Spec: v1alpha1.InventorySpec{Repository: "cluster", File: "apps/" + file + ".yaml",
			Commit: "1a2b3c4d5e6f708192a3b4c5d6e7f80912345678", Author: "Jane <jane@example.com>", Objects: []v1alpha1.InventoryObject{}},
	}
	var ops []client.Op
	for i, fields := range objects {
		data, err := json.Marshal(fields)
		if err != nil {
			c.Fatal(err)
		}
		gvk := metav1.TypeMeta{}
		if err := json.Unmarshal(data, &gvk); err != nil {
			c.Fatal(err)
		}
		r := schema.ByGVK(gvk.GroupVersionKind())
		o := r.New()
		if err := json.Unmarshal(data, o); err != nil {
			c.Fatal(err)
		}
		ops = append(ops, client.Op{Verb: client.VerbApply, Resource: r, Key: schema.KeyOf(o), Object: o, Fields: data, FieldManager: GitManager})
		inv.Spec.Objects = append(inv.Spec.Objects, v1alpha1.InventoryObject{
			Group: r.Group, Version: r.Version, Kind: r.Kind, Namespace: o.GetNamespace(), Name: o.GetName(), Line: 10 * (i + 1)})
	}
	op := client.Op{Verb: client.VerbCreate, Resource: inventories, Key: schema.KeyOf(inv), Object: inv, FieldManager: GitManager}
	if old, err := c.Get(git, inventories, schema.KeyOf(inv)); err == nil {
		inv.ResourceVersion, op.Verb = old.GetResourceVersion(), client.VerbUpdate
	}
	if _, err := c.Transact(git, append(ops, op), false); err != nil {
		c.Fatal(err)
	}
}

type fields = map[string]any

// web is a Deployment as it lies in Git; with no replicas for -1.
func web(replicas int) fields {
	spec := fields{
		"selector": fields{"matchLabels": fields{"app": "web"}},
		"template": fields{
			"metadata": fields{"labels": fields{"app": "web"}},
			"spec":     fields{"containers": []any{fields{"name": "web", "image": "web:v1"}}},
		},
	}
	if replicas >= 0 {
		spec["replicas"] = replicas
	}
	return fields{"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": fields{"namespace": "shop", "name": "web", "labels": fields{"tier": "front"}}, "spec": spec}
}

func shop(name string) schema.Key { return schema.Key{Namespace: "shop", Name: name} }

// loop returns a context of a part of the server.
func loop(name string) context.Context {
	return request.WithUser(context.Background(), identity.System(name))
}
