package request

import (
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"

	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
)

var (
	pods       = schema.ResourceFor[*corev1.Pod]()
	namespaces = schema.ResourceFor[*corev1.Namespace]()
	scalersV1  = schema.ResourceFor[*autoscalingv1.HorizontalPodAutoscaler]()
	scalersV2  = schema.ResourceFor[*autoscalingv2.HorizontalPodAutoscaler]()
)

func TestNew(t *testing.T) {
	for _, c := range []struct {
		name                              string
		a                                 registry.Attributes
		kind, namespace, operation, wants string
	}{
		{"pod", registry.Attributes{Verb: "create", Resource: pods, Key: schema.Key{Namespace: "shop", Name: "web"}, Object: pods.New()},
			"/v1, Kind=Pod", "shop", "CREATE", "CreateOptions"},
		{"a namespace is in itself", registry.Attributes{Verb: "update", Resource: namespaces, Key: schema.Key{Name: "shop"}, Object: namespaces.New(), Old: namespaces.New()},
			"/v1, Kind=Namespace", "shop", "UPDATE", "UpdateOptions"},
		{"delete", registry.Attributes{Verb: "delete", Resource: pods, Key: schema.Key{Namespace: "shop", Name: "web"}, Old: pods.New()},
			"/v1, Kind=Pod", "shop", "DELETE", "DeleteOptions"},
		{"binding", registry.Attributes{Verb: "create", Resource: pods, Subresource: "binding", Key: schema.Key{Namespace: "shop", Name: "web"}, Object: &corev1.Binding{}},
			"/v1, Kind=Binding", "shop", "CREATE", "CreateOptions"},
		{"the version that was asked for", registry.Attributes{Verb: "create", Resource: scalersV2, Request: scalersV1, Key: schema.Key{Namespace: "shop", Name: "web"}, Object: scalersV2.New()},
			"autoscaling/v1, Kind=HorizontalPodAutoscaler", "shop", "CREATE", "CreateOptions"},
		{"exec", registry.Attributes{Verb: "connect", Resource: pods, Subresource: "exec", Key: schema.Key{Namespace: "shop", Name: "web"}, Options: &corev1.PodExecOptions{}},
			"/v1, Kind=PodExecOptions", "shop", "CONNECT", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := New(&c.a, nil)
			options := ""
			if o := r.GetOperationOptions(); o != nil {
				options = o.GetObjectKind().GroupVersionKind().Kind
			}
			if r.GetKind().String() != c.kind || r.GetNamespace() != c.namespace || string(r.GetOperation()) != c.operation || options != c.wants {
				t.Errorf("kind %q, namespace %q, operation %q, options %q", r.GetKind(), r.GetNamespace(), r.GetOperation(), options)
			}
			if c.a.Object == nil && c.a.Options == nil && r.GetObject() != nil {
				t.Error("a nil object is not nil")
			}
		})
	}
}

func TestPatchOptions(t *testing.T) {
	a := registry.Attributes{Verb: "update", Resource: pods, Object: pods.New(), Old: pods.New(), FieldManager: "m",
		Options: &metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: "Strict"}}
	o, ok := New(&a, nil).GetOperationOptions().(*metav1.UpdateOptions)
	if !ok || o.FieldManager != "m" || o.FieldValidation != "Strict" || len(o.DryRun) != 1 {
		t.Errorf("the options of a patch are %+v", o)
	}
}

func TestVersions(t *testing.T) {
	o := &autoscalingv2.HorizontalPodAutoscaler{TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 3}}
	a := registry.Attributes{Verb: "create", Resource: scalersV2, Request: scalersV2, Key: schema.KeyOf(o), Object: o}
	r := New(&a, nil)
	if e := r.Equivalents(); len(e) != 1 || e[0] != scalersV1 {
		t.Errorf("equivalents are %v", e)
	}
	v, err := r.As(t.Context(), scalersV1.GVK())
	if err != nil {
		t.Fatal(err)
	}
	old, ok := v.VersionedObject.(*autoscalingv1.HorizontalPodAutoscaler)
	if !ok || old.Spec.MaxReplicas != 3 || v.VersionedOldObject != nil {
		t.Fatalf("as v1 it is %T %+v, the old one %v", v.VersionedObject, v.VersionedObject, v.VersionedOldObject)
	}
	old.Spec.MaxReplicas = 7
	if err := r.Changed(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if is, ok := a.Object.(*autoscalingv2.HorizontalPodAutoscaler); !ok || is.Spec.MaxReplicas != 7 {
		t.Errorf("what is written is %T %+v", a.Object, a.Object)
	}
}

func TestExempt(t *testing.T) {
	if !Exempt(schema.ResourceFor[*admissionv1.ValidatingWebhookConfiguration]()) || !Exempt(schema.ResourceFor[*admissionv1.MutatingAdmissionPolicyBinding]()) || Exempt(pods) {
		t.Error("what configures admission must be exempt, and nothing else")
	}
}

func TestDecode(t *testing.T) {
	o, err := Decode(pods.New(), []byte(`{"metadata":{"name":"web"},"SPEC":{"nodeName":"n"}}`))
	if err != nil || o.GetName() != "web" || o.(*corev1.Pod).Spec.NodeName != "" {
		t.Errorf("Decode: %v, %v", o, err)
	}
	if _, err := Decode(pods.New(), []byte(`{`)); err == nil {
		t.Error("half an object was decoded")
	}
	typed, err := Typed(pods.New(), &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "web"}}})
	if p, ok := typed.(*corev1.Pod); err != nil || !ok || p.Name != "web" {
		t.Errorf("Typed: %v, %v", typed, err)
	}
	if same, err := Typed(pods.New(), o); err != nil || same != o {
		t.Errorf("Typed made another of what had the type: %v", err)
	}
}

// The chain runs a second time when someone asks for it, and never a third.
func TestPass(t *testing.T) {
	ctx, p := WithPass(t.Context())
	if PassFrom(ctx) != p || PassFrom(t.Context()) == p {
		t.Error("the pass is not that of the context")
	}
	if p.Next() || p.Second() {
		t.Error("nobody has asked for a second run")
	}
	p.Again()
	if !p.Next() || !p.Second() {
		t.Error("no second run")
	}
	if p.Again(); p.Next() {
		t.Error("a third run")
	}
	fresh := func() *int { return new(int) }
	first := State(p, "a", fresh)
	if State(p, "a", fresh) != first || State(p, "b", fresh) == first {
		t.Error("state is kept for each plugin")
	}
}

func TestReinvocation(t *testing.T) {
	pod := func(node string) runtime.Object { return &corev1.Pod{Spec: corev1.PodSpec{NodeName: node}} }
	v := NewReinvocation()
	v.Willing("a")
	v.End(pod("n"))
	if v.Begin(pod("n")); v.Due("a") {
		t.Error("due, though nothing has changed")
	}
	if v.Begin(pod("m")); !v.Due("a") || v.Due("b") {
		t.Error("not due, though others have changed the object")
	}
	v.Willing("c")
	if v.Change(); !v.Due("c") {
		t.Error("not due, though one after it has changed the object")
	}
	v = NewReinvocation()
	v.Willing("a")
	if v.End(nil); v.Due("a") {
		t.Error("due at once")
	}
}

var _ admission.ObjectInterfaces = Interfaces{}
