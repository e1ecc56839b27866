package limit

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
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

func container(name, requests, limits string) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: list(requests), Limits: list(limits)}}
}

func limitRange(items ...corev1.LimitRangeItem) *corev1.LimitRange {
	return &corev1.LimitRange{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "LimitRange"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "bounds"},
		Spec:       corev1.LimitRangeSpec{Limits: items},
	}
}

// Texts are upstream's.
func TestCheckPod(t *testing.T) {
	min, max := corev1.LimitRangeItem{Type: "Container", Min: list("cpu=100m")}, corev1.LimitRangeItem{Type: "Container", Max: list("cpu=1")}
	ratio := corev1.LimitRangeItem{Type: "Container", MaxLimitRequestRatio: list("cpu=2")}
	for _, c := range []struct {
		name             string
		item             corev1.LimitRangeItem
		requests, limits string
		want             string
	}{
		{"enough", min, "cpu=100m", "cpu=100m", ""},
		{"no request", min, "", "cpu=1", "minimum cpu usage per Container is 100m.  No request is specified"},
		{"too little", min, "cpu=99m", "cpu=1", "minimum cpu usage per Container is 100m, but request is 99m"},
		{"no limit to be too little", min, "cpu=100m", "", ""},
		{"limit too little", min, "cpu=100m", "cpu=50m", "minimum cpu usage per Container is 100m, but limit is 50m"},
		{"no limit", max, "cpu=1", "", "maximum cpu usage per Container is 1.  No limit is specified"},
		{"just enough", max, "cpu=1", "cpu=1", ""},
		{"limit too much", max, "cpu=1", "cpu=1001m", "maximum cpu usage per Container is 1, but limit is 1001m"},
		{"request too much", max, "cpu=2", "cpu=1", "maximum cpu usage per Container is 1, but request is 2"},
		{"ratio", ratio, "cpu=500m", "cpu=1", ""},
		{"ratio beyond", ratio, "cpu=400m", "cpu=1", "cpu max limit to request ratio per Container is 2, but provided ratio is 2.500000"},
		{"ratio of nothing", ratio, "", "cpu=1", "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0"},
		{"ratio to nothing", ratio, "cpu=1", "", "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0"},
		{"too large for thousandths", corev1.LimitRangeItem{Type: "Container", Max: list("memory=8Ei")}, "", "memory=7Ei", ""},
		{"of pods", corev1.LimitRangeItem{Type: "Pod", Max: list("cpu=3")}, "cpu=2", "cpu=2", "maximum cpu usage per Pod is 3, but limit is 4"},
		{"of claims", corev1.LimitRangeItem{Type: "PersistentVolumeClaim", Max: list("cpu=0")}, "cpu=2", "cpu=2", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container("a", c.requests, c.limits)}}}
			if c.item.Type == corev1.LimitTypePod { // two containers add up
				pod.Spec.Containers = append(pod.Spec.Containers, container("b", c.requests, c.limits))
			}
			if got := texts(checkPod(pod, limitRange(c.item))); got != c.want {
				t.Errorf("checkPod says %q, want %q", got, c.want)
			}
			if c.item.Type != corev1.LimitTypeContainer {
				return
			}
			pod.Spec = corev1.PodSpec{InitContainers: pod.Spec.Containers}
			if got := texts(checkPod(pod, limitRange(c.item))); got != c.want {
				t.Errorf("of an init container checkPod says %q, want %q", got, c.want)
			}
		})
	}
}

func texts(errs []error) string {
	var out []string
	for _, err := range errs {
		if err != nil {
			out = append(out, err.Error())
		}
	}
	return strings.Join(out, "; ")
}

func TestCheckClaim(t *testing.T) {
	item := corev1.LimitRangeItem{Type: "PersistentVolumeClaim", Min: list("storage=1Gi"), Max: list("storage=2Gi")}
	for requests, want := range map[string]string{
		"storage=1Gi":   "",
		"storage=2Gi":   "",
		"storage=512Mi": "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 512Mi",
		"storage=3Gi":   "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi",
		"": "minimum storage usage per PersistentVolumeClaim is 1Gi.  No request is specified; " +
			"maximum storage usage per PersistentVolumeClaim is 2Gi.  No request is specified",
	} {
		pvc := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{Requests: list(requests)}}}
		if got := texts(checkClaim(pvc, limitRange(item, corev1.LimitRangeItem{Type: "Container", Max: list("storage=0")}))); got != want {
			t.Errorf("checkClaim of %q says %q, want %q", requests, got, want)
		}
	}
}

func TestDefaults(t *testing.T) {
	r := limitRange(corev1.LimitRangeItem{Type: "Container", DefaultRequest: list("cpu=100m memory=64Mi"), Default: list("cpu=200m")},
		corev1.LimitRangeItem{Type: "Pod", Default: list("example.com/never=1")})
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		Containers:     []corev1.Container{{Name: "bare"}, container("own", "cpu=1 memory=1Gi", "cpu=2")},
		InitContainers: []corev1.Container{container("init", "cpu=1", "")},
	}}
	setDefaults(pod, r)
	const want = "LimitRanger plugin set: cpu, memory request for container bare; cpu limit for container bare; " +
		"memory request for init container init; cpu limit for init container init"
	if got := pod.Annotations[annotation]; got != want {
		t.Errorf("the annotation says %q, want %q", got, want)
	}
	if got := pod.Spec.Containers[0].Resources; got.Requests.Memory().String() != "64Mi" || got.Limits.Cpu().String() != "200m" || len(got.Limits) != 1 {
		t.Errorf("defaults are %v", got)
	}
	if got := pod.Spec.Containers[1].Resources; got.Requests.Cpu().String() != "1" || got.Limits.Cpu().String() != "2" {
		t.Errorf("what was set has become %v", got)
	}
	full := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container("own", "cpu=1 memory=1Gi", "cpu=2")}}}
	if setDefaults(full, r); full.Annotations != nil {
		t.Errorf("nothing was set, and the annotations are %v", full.Annotations)
	}
}

func TestRangerRefuses(t *testing.T) {
	cluster := client.NewFake(limitRange(corev1.LimitRangeItem{Type: "Container", Max: list("cpu=1")})).Cache()
	pods := schema.ResourceFor[*corev1.Pod]()
	write := func(old schema.Object) *registry.Attributes {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "web-"}, Spec: corev1.PodSpec{Containers: []corev1.Container{container("c", "", "cpu=2")}}}
		return &registry.Attributes{Verb: "create", Resource: pods, Key: schema.Key{Namespace: "shop"}, Object: pod, Old: old, Cluster: cluster}
	}
	err := (&Ranger{}).Validate(t.Context(), write(nil))
	if err == nil || err.Error() != `pods "web-" is forbidden: maximum cpu usage per Container is 1, but limit is 2` {
		t.Errorf("Validate: %v", err)
	}
	now := metav1.Now()
	if err := (&Ranger{}).Validate(t.Context(), write(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}})); err != nil {
		t.Errorf("Validate of what is being deleted: %v", err)
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
		{"create", pods, "", true}, {"update", pods, "", false}, {"update", pods, "resize", true}, {"update", pods, "status", false}, {"delete", pods, "", false},
		{"create", claims, "", true}, {"update", claims, "", true}, {"update", claims, "status", false},
		{"create", schema.ResourceFor[*corev1.Service](), "", false},
	} {
		if got := (&Ranger{}).Handles(c.verb, c.r, c.sub); got != c.want {
			t.Errorf("Handles(%s, %s, %q) = %v", c.verb, c.r, c.sub, got)
		}
	}
}
