package crd

import (
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

func TestServe(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir, nil)
	w.create(parse(t, gadgets))
	def := w.established("gadgets.example.com")
	if n := def.Status.AcceptedNames; n.Kind != "Gadget" || n.ListKind != "GadgetList" || n.Singular != "gadget" {
		t.Errorf("accepted names %+v", n)
	}
	var conds []string
	for _, c := range def.Status.Conditions {
		conds = append(conds, string(c.Type)+"="+string(c.Status)+" "+c.Reason+": "+c.Message)
	}
	want := []string{"NamesAccepted=True NoConflicts: no conflicts found", "Established=True InitialNamesAccepted: the initial names have been accepted"}
	if !slices.Equal(conds, want) || !slices.Equal(def.Status.StoredVersions, []string{"v1"}) || def.Generation != 1 {
		t.Errorf("conditions %q, stored versions %q, generation %d", conds, def.Status.StoredVersions, def.Generation)
	}

	v1, v2 := w.row("example.com", "v1", "gadgets"), w.row("example.com", "v2", "gadgets")
	if v1 == nil || v2 == nil {
		t.Fatal("established, and not in the catalog")
	}
	if _, err := w.c.Create(t.Context(), v2, gadget("v2", "a"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	o, err := w.c.Get(t.Context(), v1, schema.Key{Namespace: "default", Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if size, _, _ := unstructured.NestedInt64(o.(*unstructured.Unstructured).Object, "spec", "size"); size != 3 || o.GetObjectKind().GroupVersionKind().Version != "v1" {
		t.Errorf("read as %v", o)
	}

	// A change is served before long.
	next := def.DeepCopy()
	next.Spec.Versions[1].Served = false
	if _, err := w.c.Update(t.Context(), crds, next, client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.untilCatalog(func() bool { return w.row("example.com", "v2", "gadgets") == nil })
	if r := w.row("example.com", "v1", "gadgets"); r.Stored() != v1.Stored() {
		t.Error("the stored row is another one after a change")
	}

	// The next process serves it when it is ready.
	w.stop()
	w = open(t, dir, nil)
	v1 = w.row("example.com", "v1", "gadgets")
	if v1 == nil {
		t.Fatal("ready, and an established definition is not served")
	}
	if _, err := w.c.Get(t.Context(), v1, schema.Key{Namespace: "default", Name: "a"}); err != nil {
		t.Error(err)
	}
}

// untilCatalog waits until the catalog is as it should be.
func (w *world) untilCatalog(ok func() bool) {
	w.t.Helper()
	for {
		changed := w.catalog.Changed()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-w.t.Context().Done():
			w.t.Fatal("the catalog does not change")
		}
	}
}

func TestDeleteWithInstances(t *testing.T) {
	w := open(t, t.TempDir(), nil)
	w.create(parse(t, gadgets))
	w.established("gadgets.example.com")
	v1 := w.row("example.com", "v1", "gadgets")
	held := gadget("v1", "held")
	held.SetFinalizers([]string{"example.com/hold"})
	for _, o := range []*unstructured.Unstructured{gadget("v1", "free"), held} {
		if _, err := w.c.Create(t.Context(), v1, o, client.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.c.Delete(t.Context(), crds, schema.Key{Name: "gadgets.example.com"}, client.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.until("gadgets.example.com", "deleting instances", func(def *apiextensionsv1.CustomResourceDefinition) bool {
		c := find(def, apiextensionsv1.Terminating)
		return c != nil && c.Reason == "InstanceDeletionInProgress"
	})
	w.untilCatalog(func() bool {
		r := w.row("example.com", "v1", "gadgets")
		return r != nil && r.Custom.(interface{ Terminating() bool }).Terminating()
	})
	_, err := w.c.Create(t.Context(), w.row("example.com", "v1", "gadgets"), gadget("v1", "late"), client.WriteOptions{})
	if !apierrors.IsForbidden(err) || !strings.HasSuffix(err.Error(), "create not allowed while custom resource definition is terminating") {
		t.Errorf("create while terminating: %v", err)
	}
	if _, err := w.c.Patch(t.Context(), v1, schema.Key{Namespace: "default", Name: "held"}, types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.until("gadgets.example.com", "gone", func(def *apiextensionsv1.CustomResourceDefinition) bool { return def == nil })
	w.untilCatalog(func() bool { return w.row("example.com", "v1", "gadgets") == nil })

	// One of the same name finds nothing of the old one.
	w.create(parse(t, gadgets))
	w.established("gadgets.example.com")
	list, err := w.c.List(t.Context(), w.row("example.com", "v1", "gadgets"), client.ListOptions{})
	if err != nil || len(list.Items) > 0 {
		t.Errorf("a new definition finds %v, %v", list.Items, err)
	}
}

func TestNamesConflict(t *testing.T) {
	w := open(t, t.TempDir(), nil)
	w.create(parse(t, gadgets))
	w.established("gadgets.example.com")
	w.create(parse(t, strings.NewReplacer("gadgets", "gizmos", "[gd]", "[gd, gz]").Replace(gadgets)))
	def := w.until("gizmos.example.com", "refused", func(def *apiextensionsv1.CustomResourceDefinition) bool {
		return def != nil && find(def, apiextensionsv1.NamesAccepted) != nil
	})
	c := find(def, apiextensionsv1.NamesAccepted)
	if c.Status != apiextensionsv1.ConditionFalse || c.Reason != "ListKindConflict" || c.Message != `"GadgetList" is already in use` {
		t.Errorf("condition %+v", c)
	}
	if c := find(def, apiextensionsv1.Established); c == nil || c.Reason != "NotAccepted" {
		t.Errorf("condition %+v", c)
	}
	if w.row("example.com", "v1", "gizmos") != nil {
		t.Error("served without its names")
	}
	// The names are free when the other is gone.
	if err := w.c.Delete(t.Context(), crds, schema.Key{Name: "gadgets.example.com"}, client.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.established("gizmos.example.com")
}

func TestDefinitionIsValidated(t *testing.T) {
	w := open(t, t.TempDir(), nil)
	_, err := w.c.Create(t.Context(), crds, parse(t, strings.Replace(gadgets, "name: gadgets.example.com", "name: gadgets.example.org", 1)), client.WriteOptions{})
	if !apierrors.IsInvalid(err) || err.Error() != `CustomResourceDefinition.apiextensions.k8s.io "gadgets.example.org" is invalid: metadata.name: Invalid value: "gadgets.example.org": must be spec.names.plural+"."+spec.group` {
		t.Errorf("error %v", err)
	}
	w.create(parse(t, gadgets))
	def := w.established("gadgets.example.com").DeepCopy()
	def.Spec.Scope = apiextensionsv1.ClusterScoped
	_, err = w.c.Update(t.Context(), crds, def, client.WriteOptions{})
	if !apierrors.IsInvalid(err) || err.Error() != `CustomResourceDefinition.apiextensions.k8s.io "gadgets.example.com" is invalid: spec.scope: Invalid value: "Cluster": field is immutable` {
		t.Errorf("error %v", err)
	}
}

// TestDeleteRefused: what refuses the deletion of an instance is logged once,
// and is in the status.
func TestDeleteRefused(t *testing.T) {
	w := open(t, t.TempDir(), nil)
	w.create(parse(t, gadgets))
	w.established("gadgets.example.com")
	v1 := w.row("example.com", "v1", "gadgets")
	if _, err := w.c.Create(t.Context(), v1, gadget("v1", "kept"), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.refuse.Store(true)
	if err := w.c.Delete(t.Context(), crds, schema.Key{Name: "gadgets.example.com"}, client.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.until("gadgets.example.com", "failing", func(def *apiextensionsv1.CustomResourceDefinition) bool {
		c := find(def, apiextensionsv1.Terminating)
		return c != nil && c.Reason == "InstanceDeletionFailed" && strings.Contains(c.Message, "kept is kept")
	})
	select {
	case <-w.often:
	case <-time.After(time.Minute):
		t.Fatal("it is not tried again")
	}
	w.refuse.Store(false)
	w.until("gadgets.example.com", "gone", func(def *apiextensionsv1.CustomResourceDefinition) bool { return def == nil })
	w.stop()
	if n := strings.Count(w.log.String(), "instances are not all deleted"); n != 1 {
		t.Errorf("%d lines in the log after %d refusals, want 1", n, w.refused)
	}
}
