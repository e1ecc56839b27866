package quota

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller/quota"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
)

// list reads "cpu=1 memory=1Gi".
func list(text string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, part := range strings.Fields(text) {
		name, value, _ := strings.Cut(part, "=")
		out[corev1.ResourceName(name)] = resource.MustParse(value)
	}
	return out
}

func quotaOf(hard, used string, scopes ...corev1.ResourceQuotaScope) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuota"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "q"},
		Spec:       corev1.ResourceQuotaSpec{Hard: list(hard), Scopes: scopes},
		Status:     corev1.ResourceQuotaStatus{Hard: list(hard), Used: list(used)},
	}
}

func pod(requests string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "c", Resources: corev1.ResourceRequirements{Requests: list(requests)}}}}}
}

func service(t corev1.ServiceType) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.ServiceSpec{Type: t, Ports: []corev1.ServicePort{{Port: 80}}}}
}

// Texts are upstream's.
func TestCharge(t *testing.T) {
	pods, services := schema.ResourceFor[*corev1.Pod](), schema.ResourceFor[*corev1.Service]()
	deadline := pod("cpu=1")
	deadline.Spec.ActiveDeadlineSeconds = ptr.To[int64](9)
	for _, c := range []struct {
		name   string
		r      *schema.Resource
		o, old schema.Object
		sub    string
		quota  *corev1.ResourceQuota
		used   string // after the write; "" when the quota stays as it is
		err    string
	}{
		{"fits", pods, pod("cpu=1"), nil, "", quotaOf("pods=2 requests.cpu=2", "pods=1 requests.cpu=1"), "pods=2 requests.cpu=2", ""},
		{"one too many", pods, pod("cpu=500m"), nil, "", quotaOf("pods=1 requests.cpu=2", "pods=1 requests.cpu=1"), "",
			"exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"},
		{"too much of two", pods, pod("cpu=2"), nil, "", quotaOf("pods=1 requests.cpu=2", "pods=1 requests.cpu=1"), "",
			"exceeded quota: q, requested: pods=1,requests.cpu=2, used: pods=1,requests.cpu=1, limited: pods=1,requests.cpu=2"},
		{"says nothing", pods, pod(""), nil, "", quotaOf("requests.cpu=2", "requests.cpu=0"), "", "failed quota: q: must specify requests.cpu for: c"},
		{"not counted yet", pods, pod("cpu=1"), nil, "", quotaOf("pods=1 requests.cpu=2", "pods=1"), "", "status unknown for quota: q, resources: pods,requests.cpu"},
		{"of other things", pods, pod("cpu=1"), nil, "", quotaOf("services=1", "services=1"), "", ""},
		{"out of scope", pods, pod("cpu=1"), nil, "", quotaOf("pods=0", "pods=0", corev1.ResourceQuotaScopeTerminating), "", ""},
		{"comes into scope", pods, deadline, pod("cpu=1"), "", quotaOf("pods=3", "pods=1", corev1.ResourceQuotaScopeTerminating), "pods=2", ""},
		{"grows", pods, pod("cpu=3"), pod("cpu=1"), "resize", quotaOf("requests.cpu=4 pods=1", "requests.cpu=2 pods=1"), "requests.cpu=4 pods=1", ""},
		{"grows too much", pods, pod("cpu=4"), pod("cpu=1"), "resize", quotaOf("requests.cpu=4", "requests.cpu=2"), "",
			"exceeded quota: q, requested: requests.cpu=3, used: requests.cpu=2, limited: requests.cpu=4"},
		{"shrinks", pods, pod("cpu=1"), pod("cpu=3"), "resize", quotaOf("requests.cpu=1", "requests.cpu=3"), "", ""},
		{"stays over", services, service("NodePort"), service("NodePort"), "", quotaOf("services.nodeports=0", "services.nodeports=1"), "", ""},
		{"gets a port", services, service("NodePort"), service("ClusterIP"), "", quotaOf("services.nodeports=0", "services.nodeports=0"), "",
			"exceeded quota: q, requested: services.nodeports=1, used: services.nodeports=0, limited: services.nodeports=0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &registry.Attributes{Verb: "create", Resource: c.r, Subresource: c.sub, Object: c.o, Old: c.old}
			if c.old != nil {
				a.Verb = "update"
			}
			got, err := charge([]*corev1.ResourceQuota{c.quota}, quota.For(c.r.GroupResource()), a, time.Now())
			if err != nil || c.err != "" {
				if err == nil || err.Error() != c.err {
					t.Errorf("charge: %v, want %q", err, c.err)
				}
				return
			}
			used := ""
			if len(got) > 0 {
				used = print(got[0].Status.Used)
			}
			if want := print(list(c.used)); used != want {
				t.Errorf("used is %q, want %q", used, want)
			}
			if len(got) > 0 && got[0] == c.quota {
				t.Error("the quota of the cache was changed")
			}
		})
	}
}

func TestHandles(t *testing.T) {
	pods, claims := schema.ResourceFor[*corev1.Pod](), schema.ResourceFor[*corev1.PersistentVolumeClaim]()
	for _, c := range []struct {
		verb string
		r    *schema.Resource
		sub  string
		want bool
	}{
		{"create", pods, "", true}, {"update", pods, "", true}, {"update", pods, "resize", true}, {"update", pods, "status", false}, {"delete", pods, "", false},
		{"update", claims, "status", true}, {"create", schema.ResourceFor[*corev1.Node](), "", false},
	} {
		if got := (&Plugin{}).Handles(c.verb, c.r, c.sub); got != c.want {
			t.Errorf("Handles(%s, %s, %q) = %v", c.verb, c.r, c.sub, got)
		}
	}
}

func TestForbidden(t *testing.T) {
	pods := schema.ResourceFor[*corev1.Pod]()
	o := pod("")
	o.Name, o.GenerateName = "", "web-"
	a := &registry.Attributes{Verb: "create", Resource: pods, Key: schema.Key{Namespace: "shop"}, Object: o, Cluster: client.NewFake(quotaOf("pods=0", "pods=0")).Cache()}
	err := (&Plugin{}).Validate(t.Context(), a)
	if err == nil || err.Error() != `pods "web-" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0` {
		t.Errorf("Validate: %v", err)
	}
}
