package scheduler

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/goleak"

	"github.com/writ-os/writ/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type nodeOption func(*corev1.Node)

func node(name, cpu, memory string, opts ...nodeOption) *corev1.Node {
	n := &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
			corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
		}},
	}
	for _, o := range opts {
		o(n)
	}
	return n
}

func maxPods(n string) nodeOption {
	return func(o *corev1.Node) { o.Status.Allocatable[corev1.ResourcePods] = resource.MustParse(n) }
}

func label(k, v string) nodeOption { return func(o *corev1.Node) { o.Labels[k] = v } }

func tainted(k, v string, e corev1.TaintEffect) nodeOption {
	return func(o *corev1.Node) { o.Spec.Taints = append(o.Spec.Taints, corev1.Taint{Key: k, Value: v, Effect: e}) }
}

func cordoned(o *corev1.Node) { o.Spec.Unschedulable = true }

func extended(name corev1.ResourceName, v string) nodeOption {
	return func(o *corev1.Node) { o.Status.Allocatable[name] = resource.MustParse(v) }
}

type podOption func(*corev1.Pod)

func pod(name string, opts ...podOption) *corev1.Pod {
	p := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Generation: 1},
		Spec:       corev1.PodSpec{SchedulerName: DefaultName, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	for _, o := range opts {
		o(p)
	}
	return p
}

func asks(cpu, memory string) podOption {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
		}
	}
}

func asksFor(name corev1.ResourceName, v string) podOption {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{name: resource.MustParse(v)}
	}
}

func initAsks(cpu string) podOption {
	return func(p *corev1.Pod) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: "init", Image: "i",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}})
	}
}

func overhead(cpu string) podOption {
	return func(p *corev1.Pod) {
		p.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
}

func takes(ip string, port int32, protocol corev1.Protocol) podOption {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, corev1.ContainerPort{HostIP: ip, HostPort: port, ContainerPort: port, Protocol: protocol})
	}
}

func on(node string) podOption { return func(p *corev1.Pod) { p.Spec.NodeName = node } }

func selecting(k, v string) podOption {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{k: v} }
}

func tolerating(t corev1.Toleration) podOption {
	return func(p *corev1.Pod) { p.Spec.Tolerations = append(p.Spec.Tolerations, t) }
}

func owned(uid types.UID) podOption {
	return func(p *corev1.Pod) {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs", UID: uid, Controller: &yes}}
	}
}

func priority(v int32) podOption { return func(p *corev1.Pod) { p.Spec.Priority = &v } }

func affinity(a *corev1.NodeAffinity) podOption {
	return func(p *corev1.Pod) { p.Spec.Affinity = &corev1.Affinity{NodeAffinity: a} }
}

func term(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}
}

func onlyNode(name string) podOption {
	return affinity(&corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{name}}}}}}})
}

// clusterOf returns the account of nodes and the pods on them.
func clusterOf(t testing.TB, objects ...schema.Object) *cluster {
	t.Helper()
	c := newCluster()
	for _, o := range objects {
		switch o := o.(type) {
		case *corev1.Node:
			c.setNode(o)
		case *corev1.Pod:
			c.setPod(o)
		default:
			t.Fatalf("no node or pod: %T", o)
		}
	}
	return c
}

func pendingOf(t testing.TB, p *corev1.Pod) *podInfo {
	t.Helper()
	info, err := newPending(p)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func numbered(prefix string, i int) string { return fmt.Sprintf("%s-%04d", prefix, i) }
