package quota

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/writ-os/writ/schema"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// list reads "cpu=1 memory=1Gi".
func list(text string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, part := range strings.Fields(text) {
		name, value, _ := strings.Cut(part, "=")
		out[corev1.ResourceName(name)] = resource.MustParse(value)
	}
	return out
}

func shown(l corev1.ResourceList) map[string]string {
	out := map[string]string{}
	for n, q := range l {
		out[string(n)] = q.String()
	}
	return out
}

func pod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
	for _, c := range change {
		c(p)
	}
	return p
}

func asks(requests, limits string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list(requests), Limits: list(limits)}
	}
}

func claim(change func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{Requests: list("storage=1Gi")}}}
	change(c)
	return c
}

func service(spec corev1.ServiceSpec) *corev1.Service { return &corev1.Service{Spec: spec} }

func TestUsage(t *testing.T) {
	ended := func(deleted time.Time) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: deleted}, ptr.To[int64](30)
		}
	}
	two := []corev1.ServicePort{{Port: 80}, {Port: 443, NodePort: 30443}}
	for _, c := range []struct {
		name string
		gr   kschema.GroupResource
		o    schema.Object
		want string
	}{
		{"bare pod", corev1.Resource("pods"), pod(), "pods=1 count/pods=1"},
		{"pod", corev1.Resource("pods"), pod(asks("cpu=1 ephemeral-storage=1Gi", "cpu=2 memory=1Gi")),
			"pods=1 count/pods=1 cpu=1 requests.cpu=1 limits.cpu=2 limits.memory=1Gi ephemeral-storage=1Gi requests.ephemeral-storage=1Gi"},
		{"pod of devices", corev1.Resource("pods"), pod(asks("hugepages-2Mi=4Mi example.com/gpu=2", "example.com/gpu=2")),
			"pods=1 count/pods=1 hugepages-2Mi=4Mi requests.hugepages-2Mi=4Mi requests.example.com/gpu=2"},
		{"pod that has ended", corev1.Resource("pods"), pod(asks("cpu=1", ""), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), "count/pods=1"},
		{"pod that is ending", corev1.Resource("pods"), pod(asks("cpu=1", ""), ended(noon)), "pods=1 count/pods=1 cpu=1 requests.cpu=1"},
		{"pod that its node does not let go", corev1.Resource("pods"), pod(asks("cpu=1", ""), ended(noon.Add(-31*time.Second))), "count/pods=1"},
		{"cluster IP", corev1.Resource("services"), service(corev1.ServiceSpec{Type: "ClusterIP", Ports: two}),
			"services=1 count/services=1 services.loadbalancers=0 services.nodeports=0"},
		{"node ports", corev1.Resource("services"), service(corev1.ServiceSpec{Type: "NodePort", Ports: two}),
			"services=1 count/services=1 services.loadbalancers=0 services.nodeports=2"},
		{"load balancer", corev1.Resource("services"), service(corev1.ServiceSpec{Type: "LoadBalancer", Ports: two}),
			"services=1 count/services=1 services.loadbalancers=1 services.nodeports=2"},
		{"load balancer without node ports but one", corev1.Resource("services"),
			service(corev1.ServiceSpec{Type: "LoadBalancer", Ports: two, AllocateLoadBalancerNodePorts: ptr.To(false)}),
			"services=1 count/services=1 services.loadbalancers=1 services.nodeports=1"},
		{"claim", corev1.Resource("persistentvolumeclaims"), claim(func(*corev1.PersistentVolumeClaim) {}),
			"persistentvolumeclaims=1 count/persistentvolumeclaims=1 requests.storage=1Gi"},
		{"claim of a class that grows", corev1.Resource("persistentvolumeclaims"), claim(func(c *corev1.PersistentVolumeClaim) {
			c.Spec.StorageClassName, c.Status.AllocatedResources = ptr.To("fast"), list("storage=2Gi")
		}), "persistentvolumeclaims=1 count/persistentvolumeclaims=1 requests.storage=2Gi " +
			"fast.storageclass.storage.k8s.io/persistentvolumeclaims=1 fast.storageclass.storage.k8s.io/requests.storage=2Gi"},
		{"devices", kschema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"}, &resourcev1.ResourceClaim{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
			Requests: []resourcev1.DeviceRequest{
				{Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: "ExactCount", Count: 2}},
				{FirstAvailable: []resourcev1.DeviceSubRequest{
					{DeviceClassName: "gpu", AllocationMode: "ExactCount", Count: 1}, {DeviceClassName: "gpu", AllocationMode: "ExactCount", Count: 3},
					{DeviceClassName: "fpga", AllocationMode: "All"}}},
			}}}}, "count/resourceclaims.resource.k8s.io=1 gpu.deviceclass.resource.k8s.io/devices=5 fpga.deviceclass.resource.k8s.io/devices=32"},
		{"secret", corev1.Resource("secrets"), &corev1.Secret{}, "secrets=1 count/secrets=1"},
		{"anything", kschema.GroupResource{Group: "apps", Resource: "deployments"}, nil, "count/deployments.apps=1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(shown(list(c.want)), shown(For(c.gr).Usage(c.o, noon))); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
		})
	}
	if For(corev1.Resource("events")) != nil || For(kschema.GroupResource{Group: "events.k8s.io", Resource: "events"}) != nil {
		t.Error("a quota counts events")
	}
}

func TestScopes(t *testing.T) {
	deadline := func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To[int64](0) }
	priority := func(p *corev1.Pod) { p.Spec.PriorityClassName = "high" }
	far := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
			{PodAffinityTerm: corev1.PodAffinityTerm{NamespaceSelector: &metav1.LabelSelector{}}}}}}
	}
	exists := func(s corev1.ResourceQuotaScope) corev1.ScopedResourceSelectorRequirement {
		return corev1.ScopedResourceSelectorRequirement{ScopeName: s, Operator: corev1.ScopeSelectorOpExists}
	}
	class := func(op corev1.ScopeSelectorOperator, values ...string) corev1.ScopedResourceSelectorRequirement {
		return corev1.ScopedResourceSelectorRequirement{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: op, Values: values}
	}
	for _, c := range []struct {
		name  string
		scope corev1.ScopedResourceSelectorRequirement
		pod   *corev1.Pod
		want  bool
	}{
		{"no deadline", exists(corev1.ResourceQuotaScopeTerminating), pod(), false},
		{"deadline", exists(corev1.ResourceQuotaScopeTerminating), pod(deadline), true},
		{"no deadline, not terminating", exists(corev1.ResourceQuotaScopeNotTerminating), pod(), true},
		{"best effort", exists(corev1.ResourceQuotaScopeBestEffort), pod(), true},
		{"zero is best effort", exists(corev1.ResourceQuotaScopeBestEffort), pod(asks("cpu=0", "")), true},
		{"devices are best effort", exists(corev1.ResourceQuotaScopeBestEffort), pod(asks("example.com/gpu=1", "")), true},
		{"a limit is not", exists(corev1.ResourceQuotaScopeBestEffort), pod(asks("", "memory=1")), false},
		{"not best effort", exists(corev1.ResourceQuotaScopeNotBestEffort), pod(asks("cpu=1m", "")), true},
		{"no class", exists(corev1.ResourceQuotaScopePriorityClass), pod(), false},
		{"class", exists(corev1.ResourceQuotaScopePriorityClass), pod(priority), true},
		{"class in", class("In", "low", "high"), pod(priority), true},
		{"class not in", class("NotIn", "low"), pod(priority), true},
		{"no class is in none", class("NotIn", "low"), pod(), true},
		{"class that must not be", class("DoesNotExist"), pod(priority), false},
		{"near", exists(corev1.ResourceQuotaScopeCrossNamespacePodAffinity), pod(), false},
		{"far", exists(corev1.ResourceQuotaScopeCrossNamespacePodAffinity), pod(far), true},
		{"unknown", exists("Unknown"), pod(), false},
	} {
		q := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{ScopeSelector: &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{c.scope}}}}
		if got := pods.InScope(q, c.pod); got != c.want {
			t.Errorf("%s: in scope: %v", c.name, got)
		}
	}
	if q := (&corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Scopes: []corev1.ResourceQuotaScope{"BestEffort"}}}); services.InScope(q, service(corev1.ServiceSpec{})) {
		t.Error("a service is in a scope of pods")
	}
}

func TestRequire(t *testing.T) {
	names := []corev1.ResourceName{"limits.memory", "pods", "requests.cpu", "requests.ephemeral-storage"}
	for _, c := range []struct {
		name string
		pod  *corev1.Pod
		want string
	}{
		{"all", pod(asks("cpu=1", "memory=1")), ""},
		{"none", pod(func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{Name: "a"}} }), "must specify limits.memory for: a,c; requests.cpu for: a,c"},
		{"for the pod", pod(func(p *corev1.Pod) { p.Spec.Resources = &corev1.ResourceRequirements{Requests: list("cpu=1")} }), ""},
	} {
		err := pods.Require(names, c.pod)
		if got := text(err); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestCharges(t *testing.T) {
	deadline := pod(func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To[int64](1) })
	grown := claim(func(c *corev1.PersistentVolumeClaim) { c.Status.AllocatedResources = list("storage=2Gi") })
	plain := claim(func(*corev1.PersistentVolumeClaim) {})
	for _, c := range []struct {
		name      string
		e         *Evaluator
		verb, sub string
		o, old    schema.Object
		want      bool
	}{
		{"new pod", pods, "create", "", pod(), nil, true},
		{"changed pod", pods, "update", "", pod(), pod(), false},
		{"pod with a deadline", pods, "update", "", deadline, pod(), true},
		{"resized pod", pods, "update", "resize", pod(), pod(), true},
		{"status of a pod", pods, "update", "status", deadline, pod(), false},
		{"changed service", services, "update", "", nil, nil, true},
		{"status of a service", services, "update", "status", nil, nil, false},
		{"changed claim", claims, "update", "", plain, plain, true},
		{"grown claim", claims, "update", "status", grown, plain, true},
		{"status of a claim", claims, "update", "status", plain, plain, false},
		{"changed secret", For(corev1.Resource("secrets")), "update", "", nil, nil, false},
		{"new secret", For(corev1.Resource("secrets")), "create", "", nil, nil, true},
	} {
		if got := c.e.Charges(c.verb, c.sub, c.o, c.old); got != c.want {
			t.Errorf("%s: charges: %v", c.name, got)
		}
	}
}

// A quota shows every name of its spec, zero where nothing is used, and no
// others.
func TestUsed(t *testing.T) {
	q := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: list("pods=1 requests.cpu=1 secrets=1 count/deployments.apps=1 unknown=1")}}
	objects := map[string][]schema.Object{
		"pods":     {pod(asks("cpu=1", "")), pod(asks("cpu=500m", "memory=1")), pod(asks("cpu=9", ""), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })},
		"secrets":  {&corev1.Secret{}},
		"services": {service(corev1.ServiceSpec{})},
	}
	got := shown(Used(q, schema.Resources, noon, func(r *schema.Resource) []schema.Object { return objects[r.String()] }))
	want := map[string]string{"pods": "2", "requests.cpu": "1500m", "secrets": "1", "count/deployments.apps": "0", "unknown": "0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("used (-want +got):\n%s", diff)
	}
}
