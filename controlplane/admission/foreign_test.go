package admission

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/warning"

	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// podTemplate is one as it lies in Git.
func podTemplate() fields {
	return fields{"metadata": fields{"labels": fields{"app": "x"}}, "spec": fields{"restartPolicy": "Never", "containers": []any{fields{"name": "c", "image": "i"}}}}
}

// TestGuardOwnsPods: who may write what Git declares runs no program of their
// own by it. Of every kind that makes pods, and by every way into them.
func TestGuardOwnsPods(t *testing.T) {
	c := open(t, nil)
	c.account("shop", "default")
	always := podTemplate()
	delete(always["spec"].(fields), "restartPolicy")
	selector := fields{"matchLabels": fields{"app": "x"}}
	c.commit("all",
		fields{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": fields{"namespace": "shop", "name": "x"}, "spec": fields{"selector": selector, "template": always}},
		fields{"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": fields{"namespace": "shop", "name": "x"}, "spec": fields{"selector": selector, "serviceName": "x", "template": always}},
		fields{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": fields{"namespace": "shop", "name": "x"}, "spec": fields{"selector": selector, "template": always}},
		fields{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": fields{"namespace": "shop", "name": "x"}, "spec": fields{"selector": selector, "template": always}},
		fields{"apiVersion": "v1", "kind": "ReplicationController", "metadata": fields{"namespace": "shop", "name": "x"}, "spec": fields{"selector": fields{"app": "x"}, "template": always}},
		fields{"apiVersion": "v1", "kind": "PodTemplate", "metadata": fields{"namespace": "shop", "name": "x"}, "template": always},
		fields{"apiVersion": "batch/v1", "kind": "CronJob", "metadata": fields{"namespace": "shop", "name": "x"},
			"spec": fields{"schedule": "@daily", "jobTemplate": fields{"spec": fields{"template": podTemplate()}}}},
		fields{"apiVersion": "batch/v1", "kind": "Job", "metadata": fields{"namespace": "shop", "name": "x"}, "spec": fields{"suspend": true, "template": podTemplate()}},
		fields{"apiVersion": "v1", "kind": "Pod", "metadata": fields{"namespace": "shop", "name": "x"}, "spec": podTemplate()["spec"]})

	resource := map[string]*schema.Resource{
		"deploy": deployments, "sts": schema.ResourceFor[*appsv1.StatefulSet](), "ds": schema.ResourceFor[*appsv1.DaemonSet](),
		"rs": schema.ResourceFor[*appsv1.ReplicaSet](), "rc": schema.ResourceFor[*corev1.ReplicationController](),
		"podtemplate": schema.ResourceFor[*corev1.PodTemplate](), "cronjob": schema.ResourceFor[*batchv1.CronJob](), "job": schema.ResourceFor[*batchv1.Job](), "pod": pods,
	}
	sidecar := `{"spec":{"containers":[{"name":"evil","image":"evil"}]}}`
	for _, tt := range []struct{ kind, sub, patch, want string }{
		{"deploy", "", `{"spec":{"template":` + sidecar + `}}`, `spec.template.spec.containers[name="evil"]`},
		{"deploy", "", `{"spec":{"template":{"spec":{"hostNetwork":true}}}}`, `spec.template.spec.hostNetwork not declared in Git, which declares the rest: edit apps/all.yaml:10 `},
		{"deploy", "", `{"spec":{"template":{"spec":{"containers":[{"name":"c","command":["sh"]}]}}}}`, `spec.template.spec.containers[name="c"].command`},
		{"deploy", "", `{"spec":{"template":{"spec":{"containers":[{"name":"c","env":[{"name":"X","value":"1"}]}]}}}}`, `env`},
		{"deploy", "", `{"spec":{"template":{"spec":{"serviceAccountName":"root"}}}}`, `serviceAccountName`},
		{"deploy", "", `{"spec":{"template":{"spec":{"dnsPolicy":"Default"}}}}`, `spec.template.spec.dnsPolicy`},
		{"deploy", "", `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"now"}}}}}`, `spec.template.metadata.annotations`},
		{"sts", "", `{"spec":{"template":` + sidecar + `}}`, "evil"},
		{"ds", "", `{"spec":{"template":` + sidecar + `}}`, "evil"},
		{"rs", "", `{"spec":{"template":` + sidecar + `}}`, "evil"},
		{"rc", "", `{"spec":{"template":` + sidecar + `}}`, "evil"},
		{"podtemplate", "", `{"template":` + sidecar + `}`, "evil"},
		{"cronjob", "", `{"spec":{"jobTemplate":{"spec":{"template":` + sidecar + `}}}}`, "evil"},
		{"cronjob", "", `{"spec":{"jobTemplate":{"spec":{"parallelism":9}}}}`, "parallelism"},
		{"job", "", `{"spec":{"template":{"spec":{"nodeSelector":{"a":"b"}}}}}`, "spec.template.spec.nodeSelector"},
		{"pod", "", `{"spec":{"tolerations":[{"key":"a","operator":"Exists"}]}}`, "spec.tolerations"},
		{"pod", "ephemeralcontainers", `{"spec":{"ephemeralContainers":[{"name":"debug","image":"debug"}]}}`, "spec.ephemeralContainers"},

		{"deploy", "", `{"metadata":{"annotations":{"a":"b"}}}`, ""},
		{"deploy", "", `{"spec":{"minReadySeconds":3}}`, ""},
		{"job", "", `{"spec":{"parallelism":2}}`, ""},
		{"cronjob", "", `{"spec":{"suspend":true}}`, ""},
		{"pod", "", `{"metadata":{"labels":{"a":"b"}}}`, ""},
	} {
		_, err := c.Patch(admin, resource[tt.kind], shop("x"), types.StrategicMergePatchType, []byte(tt.patch), client.WriteOptions{Subresource: tt.sub, FieldManager: "test"})
		if tt.want != "" {
			wantRefused(t, err, tt.want)
			if err != nil && !apierrors.HasStatusCause(err, v1alpha1.DeclaredCause) {
				t.Errorf("%s %s: no cause in the refusal", tt.kind, tt.patch)
			}
		} else if err != nil {
			t.Errorf("%s %s: %v", tt.kind, tt.patch, err)
		}
	}

	rec := &recorder{}
	glass := warning.WithWarningRecorder(as(identity.Admin, user.SystemPrivilegedGroup), rec)
	if _, err := c.Patch(glass, deployments, shop("x"), types.StrategicMergePatchType, []byte(`{"spec":{"template":`+sidecar+`}}`), client.WriteOptions{FieldManager: "kubectl"}); err != nil {
		t.Error(err)
	}
	if len(rec.texts) == 0 || !strings.Contains(rec.texts[0], "not declared in Git: it stays, and is shown as drift") {
		t.Errorf("break-glass is told %q", rec.texts)
	}
}

// TestGuardLeavesWhatIsIgnored: what the repository says it leaves alone, others
// may write, declared or not; the rest they may not.
func TestGuardLeavesWhatIsIgnored(t *testing.T) {
	c := open(t, nil)
	c.create(git, &v1alpha1.Repository{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}, Spec: v1alpha1.RepositorySpec{URL: "https://example.com/x.git",
		Ignore: []v1alpha1.IgnoreRule{{Kind: "Deployment", Namespace: "sh*", Fields: []string{"/spec/replicas", "/spec/template/metadata/annotations"}}}}})
	c.commit("web", web(3))
	for data, want := range map[string]string{
		`{"spec":{"replicas":9}}`: "",
		`{"spec":{"template":{"metadata":{"annotations":{"reloaded":"now"}}}}}`: "",
		`{"spec":{"template":{"spec":{"hostPID":true}}}}`:                       "spec.template.spec.hostPID",
		`{"spec":{"replicas":8,"template":{"spec":{"hostPID":true}}}}`:          "spec.template.spec.hostPID",
	} {
		err := patch(c, admin, types.MergePatchType, data, client.WriteOptions{})
		if want != "" {
			wantRefused(t, err, want)
		} else if err != nil {
			t.Errorf("%s: %v", data, err)
		}
	}
}

// TestGuardForeignOwners: a reference to an owner that Git does not declare
// hands an object to the garbage collector.
func TestGuardForeignOwners(t *testing.T) {
	c := open(t, nil)
	owner := func(uid string) fields {
		return fields{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": uid}
	}
	c.commit("maps",
		fields{"apiVersion": "v1", "kind": "ConfigMap", "metadata": fields{"namespace": "shop", "name": "free"}, "data": fields{"a": "b"}},
		fields{"apiVersion": "v1", "kind": "ConfigMap", "metadata": fields{"namespace": "shop", "name": "owned", "ownerReferences": []any{owner("u")}}, "data": fields{"a": "b"}})
	own := func(ctx context.Context, name, uid string) error {
		_, err := c.Patch(ctx, configMaps, shop(name), types.MergePatchType,
			[]byte(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"o","uid":"`+uid+`"}]}}`), client.WriteOptions{FieldManager: "test"})
		return err
	}
	wantRefused(t, own(admin, "free", "nobody"), `metadata.ownerReferences[uid="nobody"] not declared in Git`)
	wantRefused(t, own(controller, "free", "nobody"), "metadata.ownerReferences") // adoption
	wantRefused(t, own(admin, "owned", "nobody"), "metadata.ownerReferences")
	if err := c.Delete(controller, configMaps, shop("free"), client.DeleteOptions{}); !apierrors.HasStatusCause(err, v1alpha1.DeclaredCause) {
		t.Errorf("a loop deletes what has no owner: %v", err)
	}
	if err := c.Delete(controller, configMaps, shop("owned"), client.DeleteOptions{}); err != nil {
		t.Errorf("the collector and what Git says is owned: %v", err)
	}
}

// TestGuardLoops: which loops of the server may delete what Git declares.
func TestGuardLoops(t *testing.T) {
	c := open(t, nil)
	c.account("shop", "default")
	node := func(name string, spec corev1.NodeSpec) {
		c.create(system, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec})
	}
	node("fine", corev1.NodeSpec{})
	node("lost", corev1.NodeSpec{Taints: []corev1.Taint{{Key: "node.kubernetes.io/unreachable", Effect: corev1.TaintEffectNoExecute}}})
	node("drained", corev1.NodeSpec{Unschedulable: true})
	declaredPod := func(name, node string) fields {
		return fields{"apiVersion": "v1", "kind": "Pod", "metadata": fields{"namespace": "shop", "name": name},
			"spec": fields{"nodeName": node, "containers": []any{fields{"name": "c", "image": "i"}}}}
	}
	job := func(name string, spec fields) fields {
		spec["template"], spec["suspend"] = podTemplate(), true
		return fields{"apiVersion": "batch/v1", "kind": "Job", "metadata": fields{"namespace": "shop", "name": name}, "spec": spec}
	}
	c.commit("all", declaredPod("fine", "fine"), declaredPod("ended", "fine"), declaredPod("lost", "lost"), declaredPod("drained", "drained"), declaredPod("gone", "gone"), declaredPod("preempted", "fine"),
		job("kept", fields{}), job("ttl", fields{"ttlSecondsAfterFinished": 60}))
	if err := change(c, nodeA, shop("ended"), "status", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }); err != nil {
		if err := change(c, system, shop("ended"), "status", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }); err != nil {
			t.Fatal(err)
		}
	}
	// The way of an attack: the field is not Git's, and nothing else refuses it.
	if err := change(c, admin, shop("kept"), "", func(j *batchv1.Job) { j.Spec.TTLSecondsAfterFinished = new(int32) }); err != nil {
		t.Fatal(err)
	}
	jobs, scheduler := schema.ResourceFor[*batchv1.Job](), loop(user.KubeScheduler)
	for _, tt := range []struct {
		who  context.Context
		r    *schema.Resource
		name string
		may  bool
	}{
		{controller, pods, "fine", false},
		{controller, pods, "ended", true},
		{controller, pods, "lost", true},
		{controller, pods, "drained", true},
		{controller, pods, "gone", true},
		{scheduler, pods, "preempted", true},
		{scheduler, jobs, "ttl", false},
		{controller, jobs, "kept", false},
		{controller, jobs, "ttl", true},
	} {
		err := c.Delete(tt.who, tt.r, shop(tt.name), client.DeleteOptions{})
		if may := err == nil; may != tt.may || err != nil && !apierrors.HasStatusCause(err, v1alpha1.DeclaredCause) {
			t.Errorf("%s %s: %v", tt.r, tt.name, err)
		}
	}
}

// TestGuardLetsGoOfWhatEnds: what break-glass has deleted ends, also when Git
// declares nothing but its name, or its finalizers.
func TestGuardLetsGoOfWhatEnds(t *testing.T) {
	c := open(t, nil)
	c.commit("ns", fields{"apiVersion": "v1", "kind": "Namespace", "metadata": fields{"name": "plain"}},
		fields{"apiVersion": "v1", "kind": "ConfigMap", "metadata": fields{"namespace": "shop", "name": "held", "finalizers": []any{"example.com/hold"}}, "data": fields{"a": "b"}})
	glass := warning.WithWarningRecorder(as(identity.Admin, user.SystemPrivilegedGroup), &recorder{})
	for r, key := range map[*schema.Resource]schema.Key{namespaces: {Name: "plain"}, configMaps: shop("held")} {
		if err := c.Delete(glass, r, key, client.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := change(c, controller, schema.Key{Name: "plain"}, "finalize", func(ns *corev1.Namespace) { ns.Spec.Finalizers = nil }); err != nil {
		t.Errorf("finalize: %v", err)
	}
	wantRefused(t, change(c, admin, shop("held"), "", func(m *corev1.ConfigMap) { m.Finalizers, m.Data["a"] = nil, "c" }), "declared in Git")
	if err := change(c, as("operator"), shop("held"), "", func(m *corev1.ConfigMap) { m.Finalizers = nil }); err != nil {
		t.Errorf("let go: %v", err)
	}
	for r, key := range map[*schema.Resource]schema.Key{namespaces: {Name: "plain"}, configMaps: shop("held")} {
		if _, err := c.Get(admin, r, key); !apierrors.IsNotFound(err) {
			t.Errorf("%s %s is still there: %v", r, key, err)
		}
	}
}

// TestGuardDefinitions: a definition that Git leaves out is not deleted while
// Git declares objects of it. Break-glass may, is told, and then they go.
func TestGuardDefinitions(t *testing.T) {
	c := open(t, nil)
	gadgets := schema.Key{Name: "gadgets.example.com"}
	text := apiextensionsv1.JSONSchemaProps{Type: "object"}
	c.create(admin, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: gadgets.Name, Finalizers: []string{"example.com/hold"}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "gadgets", Singular: "gadget", Kind: "Gadget", ListKind: "GadgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &text}}}}})
	inv := &v1alpha1.Inventory{ObjectMeta: metav1.ObjectMeta{Name: "cluster-gadgets"}, Spec: v1alpha1.InventorySpec{Repository: "cluster", File: "gadgets.yaml", Commit: "1a2b3c",
		Objects: []v1alpha1.InventoryObject{{Group: "example.com", Version: "v1", Kind: "Gadget", Namespace: "shop", Name: "g", Line: 3}}}}
	c.create(git, inv)
	definitions := schema.ResourceFor[*apiextensionsv1.CustomResourceDefinition]()
	for _, who := range []context.Context{admin, controller} {
		wantRefused(t, c.Delete(who, definitions, gadgets, client.DeleteOptions{}), "1 objects of this kind are declared in Git, the first in gadgets.yaml:3 (repository cluster, commit 1a2b3c)")
	}
	instance := &registry.Attributes{Verb: "delete", User: identity.System(identity.APIServer), Key: shop("g"), Cluster: c.Cache(),
		Resource: &schema.Resource{Group: "example.com", Kind: "Gadget", Plural: "gadgets", Namespaced: true}} // the row that the store keeps: no version, no Custom
	instance.Old = &corev1.ConfigMap{}
	wantRefused(t, c.admission.Guard.Validate(system, instance), "declared in Git")
	rec := &recorder{}
	glass := warning.WithWarningRecorder(as(identity.Admin, user.SystemPrivilegedGroup), rec)
	if err := c.Delete(glass, definitions, gadgets, client.DeleteOptions{}); err != nil || len(rec.texts) == 0 {
		t.Errorf("break-glass: %v, told %q", err, rec.texts)
	}
	if err := c.admission.Guard.Validate(system, instance); err != nil {
		t.Errorf("an instance of a definition that goes: %v", err)
	}
}

// TestGuardBehindItsWatch: what a commit has declared this very moment is guarded,
// though the guard has not heard of it yet. A namespace that Git declares by its
// name alone has no field that tells whose it is.
func TestGuardBehindItsWatch(t *testing.T) {
	c := open(t, nil)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bare"}}
	c.create(git, ns)
	c.create(git, &v1alpha1.Inventory{ObjectMeta: metav1.ObjectMeta{Name: "cluster-bare"}, Spec: v1alpha1.InventorySpec{Repository: "cluster", File: "bare.yaml", Commit: "1a2b3c",
		Objects: []v1alpha1.InventoryObject{{Version: "v1", Kind: "Namespace", Name: "bare", Line: 1}, {Version: "v1", Kind: "ConfigMap", Namespace: "other", Name: "m", Line: 5}}}})
	deaf := NewGuard(c.Cache())
	close(deaf.ready)
	jane := &user.DefaultInfo{Name: "jane", Groups: []string{user.SystemPrivilegedGroup}}
	remove := func(name string) error {
		return deaf.Validate(t.Context(), &registry.Attributes{Verb: "delete", User: jane, Key: schema.Key{Name: name}, Cluster: c.Cache(),
			Resource: schema.ResourceFor[*corev1.Namespace](), Old: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}})
	}
	wantRefused(t, remove("bare"), "declared in Git: edit bare.yaml:1")
	wantRefused(t, remove("other"), "1 objects in it are declared in Git, the first in bare.yaml:5")
	if err := remove("free"); err != nil {
		t.Error(err)
	}
	for _, inv := range client.CachedList[*v1alpha1.Inventory](c.Cache(), "") {
		deaf.inventory.observe(client.Event{Type: client.Added, Object: inv})
	}
	if deaf.inventory.behind(c.Cache()) {
		t.Error("the guard has heard of every inventory, and looks through all of them")
	}

	if err := c.Delete(git, schema.ResourceFor[*v1alpha1.Inventory](), schema.Key{Name: "cluster-bare"}, client.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if !deaf.inventory.behind(c.Cache()) {
		t.Error("a deletion that was not heard of")
	}
	for deadline := time.Now().Add(time.Minute); c.admission.Guard.inventory.behind(c.Cache()); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the guard that follows never hears of the deletion")
		}
	}
}
