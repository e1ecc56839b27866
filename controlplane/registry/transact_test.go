package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// needsNamespace is what namespace admission does: it looks for the namespace
// in the cluster as the write sees it.
type needsNamespace struct{}

func (needsNamespace) Mutate(context.Context, *Attributes) error { return nil }

func (needsNamespace) Validate(_ context.Context, a *Attributes) error {
	if a.Verb != "create" || !a.Resource.Namespaced {
		return nil
	}
	if _, ok := a.Cluster.Get(namespaces, schema.Key{Name: a.Key.Namespace}); !ok {
		return notFound(namespaces, a.Key.Namespace)
	}
	return nil
}

func applyOf(r *schema.Resource, k schema.Key, json string) client.Op {
	return client.Op{Verb: client.VerbApply, Resource: r, Key: k, FieldManager: "writ", Fields: []byte(json)}
}

func applyConfigMap(name, value string) client.Op {
	return applyOf(configMaps, schema.Key{Namespace: "shop", Name: name}, fmt.Sprintf(
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":%q},"data":{"v":%q}}`, name, value))
}

var applyShop = applyOf(namespaces, schema.Key{Name: "shop"}, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}`)

func TestTransact(t *testing.T) {
	g, _ := open(t, t.TempDir(), needsNamespace{})
	ctx := as("system:writ:reconciler")

	// The namespace and what is in it, in one commit.
	objects, err := g.Transact(ctx, []client.Op{applyShop, applyConfigMap("a", "1"), applyConfigMap("b", "1")}, false)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := schema.ParseResourceVersion(objects[0].GetResourceVersion())
	for i, o := range objects {
		v, _ := schema.ParseResourceVersion(o.GetResourceVersion())
		if v != schema.NewResourceVersion(first.Main(), int64(i)) {
			t.Errorf("object %d has version %v, want the revision of the first", i, v)
		}
	}

	// The same again writes nothing.
	before := g.store.Version()
	again, err := g.Transact(ctx, []client.Op{applyShop, applyConfigMap("a", "1"), applyConfigMap("b", "1")}, false)
	if err != nil {
		t.Fatal(err)
	}
	for i := range again {
		if again[i] != objects[i] {
			t.Errorf("object %d is another one than before", i)
		}
	}
	if g.store.Version() != before {
		t.Error("an unchanged commit was written")
	}

	// One change, one deletion, one that stays.
	mixed, err := g.Transact(ctx, []client.Op{
		applyConfigMap("a", "2"), applyShop, deleteConfigMap("b"),
	}, false)
	if err != nil {
		t.Fatal(err)
	}
	if mixed[0].(*corev1.ConfigMap).Data["v"] != "2" || mixed[1] != objects[0] || mixed[2].GetName() != "b" {
		t.Errorf("results are %v", mixed)
	}
	if n := len(g.Cache().List(configMaps, "shop")); n != 1 {
		t.Errorf("%d config maps are left, want 1", n)
	}
}

func TestTransactStoresAllOrNothing(t *testing.T) {
	g, _ := open(t, t.TempDir(), needsNamespace{})
	ctx := as("system:writ:reconciler")
	before := g.store.Version()
	_, err := g.Transact(ctx, []client.Op{
		applyShop,
		applyConfigMap("a", "1"),
		applyOf(configMaps, key("lost"), `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"lost"}}`),
		applyConfigMap("b", "1"),
		applyOf(services, schema.Key{Namespace: "shop", Name: "s"}, `{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"shop","name":"s"},"spec":{"clusterIP":"10.96.0.77","ports":[{"port":80,"protocol":"TCP"}]}}`),
		applyOf(configMaps, schema.Key{Namespace: "shop", Name: "x"}, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":"y"}}`),
	}, false)
	var refused *client.TransactionError
	if !errors.As(err, &refused) || len(refused.Errs) != 2 || refused.Errs[2] == nil || refused.Errs[5] == nil {
		t.Fatalf("got %v, want refusals of ops 2 and 5", err)
	}
	if g.store.Version() != before {
		t.Error("a refused commit was written")
	}
	if _, err := g.Create(ctx, namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	// The address that the refused commit had claimed is free again.
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "s"}, Spec: corev1.ServiceSpec{
		ClusterIP: "10.96.0.77", Ports: []corev1.ServicePort{{Port: 80}}}}
	if _, err := g.Create(ctx, services, svc, client.WriteOptions{}); err != nil {
		t.Errorf("create: %v", err)
	}
}

func TestTransactDryRun(t *testing.T) {
	g, _ := open(t, t.TempDir())
	before := g.store.Version()
	o, err := g.Transact(person, []client.Op{applyShop, applyConfigMap("a", "1")}, true)
	if err != nil || o[1].(*corev1.ConfigMap).Data["v"] != "1" {
		t.Fatalf("got %v, %v", o, err)
	}
	if g.store.Version() != before {
		t.Error("a dry run was written")
	}
}

func TestTransactVersions(t *testing.T) {
	g, _ := open(t, t.TempDir())
	o, err := g.Transact(person, []client.Op{applyShop, applyConfigMap("a", "1")}, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, version, of string
		is                func(error) bool
	}{
		{"old", "1", "a", apierrors.IsConflict},
		{"must not exist", "0", "a", apierrors.IsAlreadyExists},
		{"must exist", "1", "none", apierrors.IsNotFound},
		{"right", o[1].GetResourceVersion(), "a", nil},
		{"right, new", "0", "b", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			op := applyConfigMap(tt.of, "2")
			op.ResourceVersion = tt.version
			_, err := g.Transact(person, []client.Op{op}, false)
			if tt.is == nil {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var refused *client.TransactionError
			if !errors.As(err, &refused) || !tt.is(refused.Errs[0]) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestTransactSeesItself: every op is admitted over the effects of those
// before it.
func TestTransactSeesItself(t *testing.T) {
	g, _ := open(t, t.TempDir())
	o, err := g.Transact(person, []client.Op{
		applyConfigMap("a", "1"), applyConfigMap("a", "2"), deleteConfigMap("a"),
		applyConfigMap("b", "1"), deleteConfigMap("b"), applyConfigMap("b", "3"),
	}, false)
	if err != nil {
		t.Fatal(err)
	}
	if got := o[5].(*corev1.ConfigMap).Data["v"]; got != "3" {
		t.Errorf("b has %q, want 3", got)
	}
	list := g.Cache().List(configMaps, "")
	if len(list) != 1 || list[0].GetName() != "b" {
		t.Errorf("stored %v, want b alone", list)
	}
}

func deleteConfigMap(name string) client.Op {
	return client.Op{Verb: client.VerbDelete, Resource: configMaps, Key: schema.Key{Namespace: "shop", Name: name}}
}

// TestConcurrentPatches: patches without a resourceVersion are done again until
// each has found its place.
func TestConcurrentPatches(t *testing.T) {
	g, _ := open(t, t.TempDir())
	if _, err := g.Create(person, configMaps, configMap("a", "0"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	const writers, patches = 4, 12
	var wg sync.WaitGroup
	for i := range writers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for n := range patches {
				patch := fmt.Sprintf(`{"data":{"k-%d-%d":"x"}}`, i, n)
				for {
					_, err := g.Patch(person, configMaps, key("a"), types.MergePatchType, []byte(patch), client.WriteOptions{})
					if apierrors.IsConflict(err) {
						continue // it gave up after several tries
					}
					if err != nil {
						t.Error(err)
					}
					break
				}
			}
		}()
	}
	wg.Wait()
	o, err := g.Get(person, configMaps, key("a"))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(o.(*corev1.ConfigMap).Data); n != writers*patches+1 {
		t.Errorf("%d keys, want %d: a patch was lost", n, writers*patches+1)
	}
}

func TestGenerateName(t *testing.T) {
	g, _ := open(t, t.TempDir())
	seen := map[string]bool{}
	for range 50 {
		c := configMap("", "x")
		c.GenerateName = "job-"
		o, err := g.Create(person, configMaps, c, client.WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		name := o.GetName()
		if !strings.HasPrefix(name, "job-") || len(name) != 9 || strings.ContainsAny(name[4:], "aeiouy013") || seen[name] {
			t.Errorf("generated name %q", name)
		}
		seen[name] = true
		if c.Name != "" {
			t.Fatal("the caller's object was changed")
		}
	}
}

// TestTransactManyReadsAhead: many ops come to what few do, whatever is wrong
// with some of them, and however they follow each other.
func TestTransactManyReadsAhead(t *testing.T) {
	g, _ := open(t, t.TempDir())
	ctx := as("system:writ:reconciler")
	ops := applyOps(t, aheadMost+aheadFrom)
	spoil := map[int]string{
		3:             `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"other"}}`,
		70:            `{`,
		aheadMost + 7: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + ops[aheadMost+7].Key.Name + `"},"data":{"v":[1]}}`,
	}
	good := slices.Clone(ops)
	for i, fields := range spoil {
		ops[i].Fields = []byte(fields)
	}
	ops = append(ops, ops[0]) // again: nothing new
	good = append(good, good[0])

	_, err := g.Transact(ctx, ops, false)
	var tx *client.TransactionError
	if !errors.As(err, &tx) || len(tx.Errs) != len(spoil) {
		t.Fatalf("many: %v, want %d errors", err, len(spoil))
	}
	for i := range spoil {
		_, err := g.Transact(ctx, ops[i:i+1], true)
		var one *client.TransactionError
		if !errors.As(err, &one) || tx.Errs[i] == nil || tx.Errs[i].Error() != one.Errs[0].Error() {
			t.Errorf("op %d: %v, alone: %v", i, tx.Errs[i], err)
		}
	}
	out, err := g.Transact(ctx, good, false)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := out[0], out[len(out)-1]; a.GetUID() != b.GetUID() || a.GetResourceVersion() != b.GetResourceVersion() {
		t.Errorf("an object that is declared twice is two: %v, %v", a.GetUID(), b.GetUID())
	}
	for i, o := range out {
		if f := o.GetManagedFields(); o.GetName() != good[i].Key.Name || len(f) != 1 || f[0].Manager != "writ" || f[0].Operation != metav1.ManagedFieldsOperationApply {
			t.Fatalf("op %d came to %s of %v", i, o.GetName(), f)
		}
	}
}
