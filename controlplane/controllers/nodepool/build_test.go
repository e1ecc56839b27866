package nodepool

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/writ-os/writ/schema/v1alpha1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noon is the time at which tables play.
var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func anImage(name, version string) *v1alpha1.NodeImage {
	return &v1alpha1.NodeImage{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.NodeImageSpec{Version: version, Source: v1alpha1.NodeImageSource{URL: "https://images.example.com/" + name},
			Digest: fmt.Sprintf("sha256:%064d", len(name)), Arch: "amd64"},
	}
}

func aPool(name, image string, change ...func(*v1alpha1.NodePool)) *v1alpha1.NodePool {
	p := &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}, Spec: v1alpha1.NodePoolSpec{Image: image}}
	for _, c := range change {
		c(p)
	}
	return p
}

func atMost(n string) func(*v1alpha1.NodePool) {
	v := intstr.Parse(n)
	return func(p *v1alpha1.NodePool) { p.Spec.Update.MaxUnavailable = &v }
}

// aNode is one that is ready and runs a version; the pairs are annotations.
func aNode(name, version string, pairs ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}, Annotations: map[string]string{}}}
	n.Status.NodeInfo.Architecture = "amd64"
	setReady(n, true)
	if version != "" {
		n.Annotations[v1alpha1.ImageAnnotation] = version
		n.Annotations[v1alpha1.UpdatePhaseAnnotation] = string(v1alpha1.UpdateIdle)
	}
	for i := 0; i < len(pairs); i += 2 {
		n.Annotations[pairs[i]] = pairs[i+1]
		if pairs[i] == v1alpha1.CordonedByAnnotation {
			n.Spec.Unschedulable = true
		}
	}
	return n
}

func setReady(n *corev1.Node, ready bool) {
	s := corev1.ConditionFalse
	if ready {
		s = corev1.ConditionTrue
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: s}}
}

func notReady(n *corev1.Node) *corev1.Node {
	setReady(n, false)
	return n
}

func server(n *corev1.Node) *corev1.Node {
	n.Labels[controlPlaneLabel] = ""
	return n
}

// stagedNode has fetched an image.
func stagedNode(name, version, image string, more ...string) *corev1.Node {
	return aNode(name, version, append([]string{v1alpha1.DesiredImageAnnotation, image, v1alpha1.UpdatePhaseAnnotation, string(v1alpha1.UpdateStaged)}, more...)...)
}

// drainingNode has been cordoned for a while.
func drainingNode(name, version, image string, ago time.Duration) *corev1.Node {
	return stagedNode(name, version, image, v1alpha1.CordonedByAnnotation, v1alpha1.CordonedByNodePool, v1alpha1.UpdateStepAnnotation, note(draining, noon.Add(-ago)))
}

func rebootingNode(name, version, image string, ago time.Duration, more ...string) *corev1.Node {
	return stagedNode(name, version, image, append([]string{v1alpha1.CordonedByAnnotation, v1alpha1.CordonedByNodePool,
		v1alpha1.RebootAnnotation, image, v1alpha1.UpdateStepAnnotation, note(rebooting, noon.Add(-ago))}, more...)...)
}

// aPod is one of a ReplicaSet, ready, on a node.
func aPod(name, node string, change ...func(*corev1.Pod)) *corev1.Pod {
	yes := true
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": "web"}, OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "web", Controller: &yes}}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "demo:v1"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func bare(p *corev1.Pod) { p.OwnerReferences = nil }

func aBudget(name string, allowed int32) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed, CurrentHealthy: 2 + allowed, DesiredHealthy: 2, ExpectedPods: 3},
	}
}

// aWorld puts objects where a plan reads them.
func aWorld(objects ...any) world {
	var w world
	pods := map[string][]*corev1.Pod{}
	for _, o := range objects {
		switch o := o.(type) {
		case *v1alpha1.NodePool:
			w.pools = append(w.pools, o)
		case *v1alpha1.NodeImage:
			w.images = append(w.images, o)
		case *corev1.Node:
			w.nodes = append(w.nodes, o)
		case *corev1.Pod:
			pods[o.Spec.NodeName] = append(pods[o.Spec.NodeName], o)
		case *policyv1.PodDisruptionBudget:
			w.budgets = append(w.budgets, o)
		default:
			panic(fmt.Sprintf("no place for %T", o))
		}
	}
	w.pods = func(node string) []*corev1.Pod { return pods[node] }
	return w
}

func condition(s v1alpha1.NodePoolStatus, kind string) metav1.Condition {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{}
}
