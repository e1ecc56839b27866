package charts

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// TestKustomize builds an overlay and applies what comes of it by the dynamic
// client, twice: the second time nothing changes.
func TestKustomize(t *testing.T) {
	cfg, err := clientcmd.BuildConfigFromFlags("", server(t))
	if err != nil {
		t.Fatal(err)
	}
	c, d := kubernetes.NewForConfigOrDie(cfg), dynamic.NewForConfigOrDie(cfg)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.Discovery()))
	apply := func(manager string, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		m, err := mapper.RESTMapping(o.GroupVersionKind().GroupKind(), o.GroupVersionKind().Version)
		if err != nil {
			t.Fatal(err)
		}
		return d.Resource(m.Resource).Namespace(o.GetNamespace()).Apply(t.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: manager})
	}
	objects := build(t, "testdata/kustomize/overlay")
	versions := map[types.UID]string{}
	for round := range 2 {
		for _, o := range objects {
			got, err := apply("kustomize", o)
			if err != nil {
				t.Fatalf("apply %s %s: %v", o.GetKind(), o.GetName(), err)
			}
			if round == 1 && versions[got.GetUID()] != got.GetResourceVersion() {
				t.Errorf("%s %s has changed without a change", o.GetKind(), o.GetName())
			}
			versions[got.GetUID()] = got.GetResourceVersion()
		}
	}
	if len(versions) != 3 {
		t.Errorf("%d objects, want 3", len(versions))
	}
	web, err := c.AppsV1().Deployments("default").Get(t.Context(), "night-web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	k := web.Spec.Template.Spec.Containers[0]
	if *web.Spec.Replicas != 4 || web.Spec.MinReadySeconds != 5 || k.Image != "example.com/web:v2" || web.Labels["tier"] != "front" {
		t.Errorf("night-web is %+v", web.Spec)
	}
	settings, err := c.CoreV1().ConfigMaps("default").Get(t.Context(), k.EnvFrom[0].ConfigMapRef.Name, metav1.GetOptions{})
	if err != nil || settings.Data["colour"] != "blue" || !strings.HasPrefix(settings.Name, "night-settings-") {
		t.Errorf("the settings: %v, %v", settings, err)
	}
	for _, o := range objects {
		if o.GetKind() == "Deployment" {
			_ = unstructured.SetNestedField(o.Object, int64(5), "spec", "replicas")
			if _, err := apply("other", o); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "kustomize"`) {
				t.Errorf("another manager: %v", err)
			}
		}
	}
}

func build(t *testing.T, dir string) []*unstructured.Unstructured {
	t.Helper()
	m, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []*unstructured.Unstructured
	for _, r := range m.Resources() {
		o, err := r.Map()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, &unstructured.Unstructured{Object: normal(o).(map[string]any)})
	}
	return out
}

// normal makes int64 of int, as unstructured objects have them.
func normal(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = normal(e)
		}
	case []any:
		for i, e := range v {
			v[i] = normal(e)
		}
	case int:
		return int64(v)
	}
	return v
}
