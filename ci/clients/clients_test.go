package clients

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/retry"

	"github.com/writ-os/writ/ci/freeport"
	"github.com/writ-os/writ/cmd/writ/cluster"
)

// start runs a control plane and returns a client configuration of its
// break-glass credential.
func start(t *testing.T) *rest.Config { return startWith(t, cluster.API{}) }

func startWith(t *testing.T, api cluster.API) *rest.Config {
	t.Helper()
	dir := t.TempDir()
	addr := freeport.Local(t)
	p := cluster.NewControlPlane(cluster.Config{DataDir: dir, Listen: addr, NodeName: "none", API: api, Version: "v1.36.4+writ", Log: slog.New(slog.DiscardHandler)})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("control plane: %v", err)
		}
	})
	select {
	case <-p.Ready():
	case err := <-done:
		done <- err
		t.Fatal(err)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1
	return cfg
}

// eventually polls; what it waits for comes by events of another part.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("%s: not within 30 s", what)
}

func TestClients(t *testing.T) {
	cfg := start(t)
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("informers", func(t *testing.T) { informerTest(t, c) })
	t.Run("leader election", func(t *testing.T) { leaderTest(t, c) })
	t.Run("dynamic client, discovery, custom resources", func(t *testing.T) { dynamicTest(t, cfg) })
	t.Run("server-side apply", func(t *testing.T) { applyTest(t, c) })
	t.Run("conflicts", func(t *testing.T) { conflictTest(t, c) })
	t.Run("pages", func(t *testing.T) { pageTest(t, c) })
}

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
}

// informerTest: an informer sees what was there, and every change after.
func informerTest(t *testing.T, c kubernetes.Interface) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	maps := c.CoreV1().ConfigMaps("default")
	for i := range 20 {
		if _, err := maps.Create(ctx, configMap(fmt.Sprintf("before-%d", i), nil), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	f := informers.NewSharedInformerFactoryWithOptions(c, 0, informers.WithNamespace("default"))
	inf := f.Core().V1().ConfigMaps()
	var added, updated, deleted atomic.Int32
	reg, err := inf.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { added.Add(1) }, UpdateFunc: func(any, any) { updated.Add(1) }, DeleteFunc: func(any) { deleted.Add(1) },
	})
	if err != nil {
		t.Fatal(err)
	}
	f.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), reg.HasSynced) {
		t.Fatal("the informer never synced")
	}
	defer f.Shutdown()
	defer cancel()
	if n := added.Load(); n < 20 {
		t.Errorf("%d were there, 20 were created before", n)
	}
	for i := range 20 {
		name := fmt.Sprintf("before-%d", i)
		if _, err := maps.Update(ctx, configMap(name, map[string]string{"turn": "2"}), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := maps.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "20 updates and 20 deletions", func() bool { return updated.Load() >= 20 && deleted.Load() == 20 })
	left, err := inf.Lister().ConfigMaps("default").List(labels.Everything())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range left {
		if strings.HasPrefix(m.Name, "before-") {
			t.Errorf("%s is still in the informer", m.Name)
		}
	}
}

// leaderTest: one of three leads; when it lets go, another does.
func leaderTest(t *testing.T, c kubernetes.Interface) {
	ctx, cancel := context.WithCancel(t.Context())
	var leaders atomic.Int32
	led := make(chan string, 3)
	stops := map[string]context.CancelFunc{}
	var all sync.WaitGroup
	for _, id := range []string{"a", "b", "c"} {
		mine, stop := context.WithCancel(ctx)
		stops[id] = stop
		lock := &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: "default", Name: "lead"}, Client: c.CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: id}}
		e, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 100 * time.Millisecond, ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(ctx context.Context) {
					if leaders.Add(1) > 1 {
						t.Error("two lead at once")
					}
					led <- id
					<-ctx.Done()
					leaders.Add(-1)
				},
				OnStoppedLeading: func() {},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() { e.Run(mine) })
	}
	first := <-led
	eventually(t, first+" lets go", func() bool { stops[first](); return leaders.Load() == 0 || len(led) > 0 })
	if second := <-led; second == first {
		t.Errorf("%s leads again", first)
	}
	cancel()
	all.Wait()
}

// dynamicTest: a definition is found by discovery, its objects by the dynamic
// client and its informer, and both go with it.
func dynamicTest(t *testing.T, cfg *rest.Config) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c := kubernetes.NewForConfigOrDie(cfg)
	definition := &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{Kind: "CustomResourceDefinition", APIVersion: "apiextensions.k8s.io/v1"},
		ObjectMeta: metav1.ObjectMeta{Name: "lamps.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "lamps", Kind: "Lamp", ShortNames: []string{"lp"}},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
					"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"lit": {Type: "boolean"}}}}}}}}},
	}
	u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(definition)
	if err != nil {
		t.Fatal(err)
	}
	delete(u, "status")
	crds := d.Resource(kschema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	if _, err := crds.Create(ctx, &unstructured.Unstructured{Object: u}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	cached := memory.NewMemCacheClient(c.Discovery())
	mapper := restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(cached), cached, nil)
	var lamps kschema.GroupVersionResource
	eventually(t, "discovery knows lp", func() bool {
		cached.Invalidate()
		lamps, err = mapper.ResourceFor(kschema.GroupVersionResource{Resource: "lp"})
		return err == nil
	})
	if lamps != (kschema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "lamps"}) {
		t.Fatalf("lp is %v", lamps)
	}
	f := dynamicinformer.NewDynamicSharedInformerFactory(d, 0)
	inf := f.ForResource(lamps)
	var lit atomic.Int32
	reg, err := inf.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(o any) {
		if on, _, _ := unstructured.NestedBool(o.(*unstructured.Unstructured).Object, "spec", "lit"); on {
			lit.Add(1)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	f.Start(ctx.Done())
	defer f.Shutdown()
	defer cancel()
	if !cache.WaitForCacheSync(ctx.Done(), reg.HasSynced) {
		t.Fatal("the informer never synced")
	}
	for i := range 5 {
		lamp := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Lamp",
			"metadata": map[string]any{"name": fmt.Sprintf("lamp-%d", i)}, "spec": map[string]any{"lit": true, "unknown": "is pruned"}}}
		got, err := d.Resource(lamps).Namespace("default").Create(ctx, lamp, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, there, _ := unstructured.NestedString(got.Object, "spec", "unknown"); there {
			t.Errorf("an unknown field was kept: %v", got.Object)
		}
	}
	eventually(t, "five lamps are lit", func() bool { return lit.Load() == 5 })
	if err := crds.Delete(ctx, "lamps.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the definition is gone", func() bool {
		_, err := crds.Get(ctx, "lamps.example.com", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	if _, err := d.Resource(lamps).Namespace("default").List(ctx, metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("list of a resource that is gone: %v", err)
	}
}

// applyTest: what one manager owns another cannot take unless it forces.
func applyTest(t *testing.T, c kubernetes.Interface) {
	apply := func(manager string, replicas int32, force bool) error {
		l := map[string]string{"app": "x"}
		d := appsv1ac.Deployment("applied", "default").WithSpec(appsv1ac.DeploymentSpec().WithReplicas(replicas).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(l)).
			WithTemplate(corev1ac.PodTemplateSpec().WithLabels(l).WithSpec(corev1ac.PodSpec().WithContainers(corev1ac.Container().WithName("c").WithImage("x")))))
		_, err := c.AppsV1().Deployments("default").Apply(t.Context(), d, metav1.ApplyOptions{FieldManager: manager, Force: force})
		return err
	}
	if err := apply("one", 1, false); err != nil {
		t.Fatal(err)
	}
	err := apply("two", 2, false)
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "one"`) || !strings.Contains(err.Error(), ".spec.replicas") {
		t.Errorf("second manager: %v", err)
	}
	if err := apply("two", 2, true); err != nil {
		t.Error(err)
	}
	got, err := appsv1ac.ExtractDeploymentFrom(must(c.AppsV1().Deployments("default").Get(t.Context(), "applied", metav1.GetOptions{})), "two", "")
	if err != nil || got.Spec == nil || got.Spec.Replicas == nil || *got.Spec.Replicas != 2 {
		t.Errorf("what two owns: %+v, %v", got, err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// conflictTest: 16 writers of one counter lose nothing.
func conflictTest(t *testing.T, c kubernetes.Interface) {
	maps := c.CoreV1().ConfigMaps("default")
	if _, err := maps.Create(t.Context(), configMap("counter", map[string]string{}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			err := retry.OnError(retry.DefaultBackoff, func(error) bool { return true }, func() error {
				m, err := maps.Get(t.Context(), "counter", metav1.GetOptions{})
				if err != nil {
					return err
				}
				if m.Data == nil {
					m.Data = map[string]string{}
				}
				m.Data[fmt.Sprint(i)] = "here"
				return retry.RetryOnConflict(retry.DefaultRetry, func() error { _, err := maps.Update(t.Context(), m, metav1.UpdateOptions{}); return err })
			})
			for apierrors.IsConflict(err) {
				var m *corev1.ConfigMap
				if m, err = maps.Get(t.Context(), "counter", metav1.GetOptions{}); err != nil {
					break
				}
				m.Data[fmt.Sprint(i)] = "here"
				_, err = maps.Update(t.Context(), m, metav1.UpdateOptions{})
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if m := must(maps.Get(t.Context(), "counter", metav1.GetOptions{})); len(m.Data) != 16 {
		t.Errorf("%d of 16 writes are there", len(m.Data))
	}
}

// pageTest: pages are those of one moment.
func pageTest(t *testing.T, c kubernetes.Interface) {
	maps := c.CoreV1().ConfigMaps("kube-public")
	for i := range 25 {
		must(maps.Create(t.Context(), configMap(fmt.Sprintf("page-%02d", i), nil), metav1.CreateOptions{}))
	}
	seen, version := 0, ""
	for o := (metav1.ListOptions{Limit: 10}); ; {
		l := must(maps.List(t.Context(), o))
		if version == "" {
			version = l.ResourceVersion
		}
		if l.ResourceVersion != version {
			t.Errorf("a page of version %s, the first is of %s", l.ResourceVersion, version)
		}
		for _, m := range l.Items {
			if strings.HasPrefix(m.Name, "page-") {
				seen++
			}
			if strings.HasPrefix(m.Name, "page-late") {
				t.Error("a page shows what came later")
			}
		}
		if o.Continue = l.Continue; o.Continue == "" {
			break
		}
		must(maps.Create(t.Context(), configMap(fmt.Sprintf("page-late-%d", seen), nil), metav1.CreateOptions{}))
	}
	if seen != 25 {
		t.Errorf("%d of 25 on the pages", seen)
	}
}
