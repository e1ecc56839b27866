package apiserver_test

import (
	"context"
	"encoding/pem"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/writ-os/writ/controlplane/client"
)

var clientOptions = client.WriteOptions{FieldManager: "test"}

func pemOf(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// TestClientset walks one object through its life with the client that the
// world uses, in protobuf and in JSON.
func TestClientset(t *testing.T) {
	c := newCluster(t)
	for _, contentType := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		t.Run(contentType, func(t *testing.T) {
			cfg := c.config("admin")
			cfg.ContentType = contentType
			cs, err := kubernetes.NewForConfig(cfg)
			if err != nil {
				t.Fatal(err)
			}
			testLife(t, cs)
		})
	}
}

func testLife(t *testing.T, cs *kubernetes.Clientset) {
	ctx := t.Context()
	cms := cs.CoreV1().ConfigMaps("default")
	made, err := cms.Create(ctx, configMap(1), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	if made.UID == "" || made.ResourceVersion == "" {
		t.Fatalf("created object has no uid or version: %+v", made.ObjectMeta)
	}
	if _, err := cms.Create(ctx, configMap(1), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Fatalf("create again: %v, want AlreadyExists", err)
	}
	made.Data["key"] = "new"
	updated, err := cms.Update(ctx, made, metav1.UpdateOptions{})
	if err != nil {
		t.Fatalf("update: %v", err)
	}
	if _, err := cms.Update(ctx, made, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Fatalf("update of an old version: %v, want Conflict", err)
	}
	for _, patch := range []struct {
		t    types.PatchType
		body string
	}{
		{types.MergePatchType, `{"data":{"merge":"1"}}`},
		{types.StrategicMergePatchType, `{"data":{"strategic":"1"}}`},
		{types.JSONPatchType, `[{"op":"add","path":"/data/json","value":"1"}]`},
	} {
		if _, err := cms.Patch(ctx, made.Name, patch.t, []byte(patch.body), metav1.PatchOptions{}); err != nil {
			t.Fatalf("patch %s: %v", patch.t, err)
		}
	}
	applied, err := cms.Apply(ctx, applycorev1.ConfigMap(made.Name, "default").WithData(map[string]string{"applied": "1"}), metav1.ApplyOptions{FieldManager: "applier"})
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	for _, key := range []string{"key", "merge", "strategic", "json", "applied"} {
		if applied.Data[key] == "" {
			t.Errorf("after all patches key %q is missing: %v", key, applied.Data)
		}
	}
	got, err := cms.Get(ctx, made.Name, metav1.GetOptions{})
	if err != nil || got.ResourceVersion != applied.ResourceVersion || got.ResourceVersion == updated.ResourceVersion {
		t.Fatalf("get: %v, version %v, want %v", err, got.ResourceVersion, applied.ResourceVersion)
	}
	list, err := cms.List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != made.Name || list.Items[0].Data["applied"] != "1" {
		t.Fatalf("list: %v %v", list, err)
	}
	if err := cms.Delete(ctx, made.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &[]types.UID{"other"}[0]}}); !apierrors.IsConflict(err) {
		t.Fatalf("delete of another uid: %v, want Conflict", err)
	}
	if err := cms.Delete(ctx, made.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatalf("delete: %v", err)
	}
	if _, err := cms.Get(ctx, made.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Fatalf("get of a deleted object: %v, want NotFound", err)
	}
}

func TestSubresources(t *testing.T) {
	c := newCluster(t)
	cs, ctx := c.clientset(t, "admin"), t.Context()
	replicas := int32(2)
	labels := map[string]string{"app": "web"}
	if _, err := cs.AppsV1().Deployments("default").Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod("x").Spec}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	scale, err := cs.AppsV1().Deployments("default").GetScale(ctx, "web", metav1.GetOptions{})
	if err != nil || scale.Spec.Replicas != 2 {
		t.Fatalf("get scale: %+v %v", scale, err)
	}
	scale.Spec.Replicas = 5
	if scale, err = cs.AppsV1().Deployments("default").UpdateScale(ctx, "web", scale, metav1.UpdateOptions{}); err != nil || scale.Spec.Replicas != 5 {
		t.Fatalf("update scale: %+v %v", scale, err)
	}
	var patched autoscalingv1.Scale
	if err := cs.AppsV1().RESTClient().Patch(types.MergePatchType).Namespace("default").Resource("deployments").Name("web").SubResource("scale").
		Body([]byte(`{"spec":{"replicas":7}}`)).Do(ctx).Into(&patched); err != nil || patched.Spec.Replicas != 7 {
		t.Fatalf("patch scale: %+v %v", patched, err)
	}

	if _, err := cs.CoreV1().Pods("default").Create(ctx, pod("p"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := cs.CoreV1().Pods("default").Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Target: corev1.ObjectReference{Kind: "Node", Name: "n1"}}, metav1.CreateOptions{}); err != nil {
		t.Fatalf("bind: %v", err)
	}
	p, err := cs.CoreV1().Pods("default").Get(ctx, "p", metav1.GetOptions{})
	if err != nil || p.Spec.NodeName != "n1" {
		t.Fatalf("bound pod: %q %v", p.Spec.NodeName, err)
	}
	p.Status.Phase = corev1.PodRunning
	if p, err = cs.CoreV1().Pods("default").UpdateStatus(ctx, p, metav1.UpdateOptions{}); err != nil || p.Status.Phase != corev1.PodRunning {
		t.Fatalf("update status: %v", err)
	}
	list, err := cs.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=n1,status.phase=Running"})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("list by fields: %d %v", len(list.Items), err)
	}
	// A pod on a node ends gracefully: it stays, marked.
	if err := cs.CoreV1().Pods("default").Delete(ctx, "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if p, err = cs.CoreV1().Pods("default").Get(ctx, "p", metav1.GetOptions{}); err != nil || p.DeletionTimestamp == nil {
		t.Fatalf("pod that is being deleted: %v", err)
	}
}

// TestInformer runs client-go's informers, which open with a WatchList and wait
// for the bookmark that ends the initial events.
func TestInformer(t *testing.T) {
	c := newCluster(t)
	cs := c.clientset(t, "admin")
	for i := range 50 {
		if _, err := cs.CoreV1().ConfigMaps("default").Create(t.Context(), configMap(i), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	f := informers.NewSharedInformerFactory(cs, 0)
	inf := f.Core().V1().ConfigMaps()
	deleted := make(chan string, 1)
	if _, err := inf.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		DeleteFunc: func(o any) { deleted <- o.(*corev1.ConfigMap).Name },
	}); err != nil {
		t.Fatal(err)
	}
	f.Start(ctx.Done())
	defer f.Shutdown()
	defer cancel()
	syncCtx, done := context.WithTimeout(ctx, 10*time.Second)
	defer done()
	if !cache.WaitForCacheSync(syncCtx.Done(), inf.Informer().HasSynced) {
		t.Fatal("informer does not sync")
	}
	if n := len(inf.Informer().GetStore().List()); n != 50 {
		t.Fatalf("informer has %d objects, want 50", n)
	}
	if err := cs.CoreV1().ConfigMaps("default").Delete(ctx, "cm-000007", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case name := <-deleted:
		if name != "cm-000007" {
			t.Fatalf("deleted %q", name)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("informer does not see a deletion")
	}
}

func TestLeaderElection(t *testing.T) {
	c := newCluster(t)
	ctx, cancel := context.WithCancel(t.Context())
	leads := make(chan struct{})
	e, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: "default", Name: "lock"}, Client: c.clientset(t, "admin").CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: "me"},
		},
		LeaseDuration: 5 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: 100 * time.Millisecond, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { close(leads) }, OnStoppedLeading: func() {}},
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { e.Run(ctx); close(done) }()
	select {
	case <-leads:
	case <-time.After(10 * time.Second):
		t.Fatal("nobody leads")
	}
	time.Sleep(300 * time.Millisecond) // some renewals over the wire
	cancel()
	<-done
	l, err := c.clientset(t, "admin").CoordinationV1().Leases("default").Get(t.Context(), "lock", metav1.GetOptions{})
	if err != nil || l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity != "" {
		t.Fatalf("lease is not released: %v %v", l, err)
	}
}

func TestDynamicAndMetadata(t *testing.T) {
	c := newCluster(t)
	dyn, err := dynamic.NewForConfig(c.config("admin"))
	if err != nil {
		t.Fatal(err)
	}
	repos := kschema.GroupVersionResource{Group: "writ.dev", Version: "v1alpha1", Resource: "repositories"}
	if _, err := dyn.Resource(repos).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "writ.dev/v1alpha1", "kind": "Repository", "metadata": map[string]any{"name": "apps"},
		"spec": map[string]any{"url": "https://example.org/apps.git"},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create: %v", err)
	}
	l, err := dyn.Resource(repos).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(l.Items) != 1 {
		t.Fatalf("list: %v %v", l, err)
	}
	for _, r := range []kschema.GroupVersionResource{repos, {Version: "v1", Resource: "namespaces"}} {
		mc, err := metadata.NewForConfig(c.config("admin"))
		if err != nil {
			t.Fatal(err)
		}
		ml, err := mc.Resource(r).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(ml.Items) != 1 || ml.Items[0].UID == "" || ml.ResourceVersion == "" {
			t.Fatalf("metadata list of %s: %v %v", r.Resource, ml, err)
		}
		m, err := mc.Resource(r).Get(t.Context(), ml.Items[0].Name, metav1.GetOptions{})
		if err != nil || m.UID != ml.Items[0].UID {
			t.Fatalf("metadata get of %s: %v %v", r.Resource, m, err)
		}
	}
}

func TestDiscovery(t *testing.T) {
	c := newCluster(t)
	d := c.clientset(t, "admin").Discovery()
	v, err := d.ServerVersion()
	if err != nil || v.Minor != "36" || v.Major != "1" {
		t.Fatalf("version: %+v %v", v, err)
	}
	groups, lists, err := d.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, l := range lists {
		for _, r := range l.APIResources {
			found[l.GroupVersion+" "+r.Name] = true
		}
	}
	for _, want := range []string{
		"v1 pods", "v1 pods/log", "apps/v1 deployments/scale", "writ.dev/v1alpha1 commits",
		"authorization.k8s.io/v1 selfsubjectaccessreviews", "authentication.k8s.io/v1 selfsubjectreviews",
	} {
		if !found[want] {
			t.Errorf("discovery does not show %s", want)
		}
	}
	// The unaggregated documents say the same.
	for _, g := range groups {
		for _, gv := range g.Versions {
			l, err := d.ServerResourcesForGroupVersion(gv.GroupVersion)
			if err != nil {
				t.Fatalf("%s: %v", gv.GroupVersion, err)
			}
			for _, r := range l.APIResources {
				if !found[gv.GroupVersion+" "+r.Name] {
					t.Errorf("aggregated discovery does not show %s %s", gv.GroupVersion, r.Name)
				}
			}
		}
	}
}
