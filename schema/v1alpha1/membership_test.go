package v1alpha1

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPoolOf(t *testing.T) {
	pool := func(name string, priority int32, labels map[string]string, operator ...metav1.LabelSelectorOperator) *NodePool {
		p := &NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: NodePoolSpec{Priority: priority, Selector: metav1.LabelSelector{MatchLabels: labels}}}
		for _, o := range operator {
			p.Spec.Selector.MatchExpressions = append(p.Spec.Selector.MatchExpressions, metav1.LabelSelectorRequirement{Key: "gpu", Operator: o})
		}
		return p
	}
	m := NewMembership([]*NodePool{
		pool("zz-all", 0, nil), pool("all", 0, nil), pool("b-web", 5, map[string]string{"role": "web"}), pool("a-web", 5, map[string]string{"role": "web"}),
		pool("gpu", 10, nil, metav1.LabelSelectorOpExists), pool("broken", 100, nil, "Nonsense"),
	})
	for _, c := range []struct {
		labels map[string]string
		want   string
	}{
		{nil, "all"},
		{map[string]string{"role": "web"}, "a-web"},
		{map[string]string{"role": "web", "gpu": ""}, "gpu"},
		{map[string]string{"role": "db"}, "all"},
	} {
		if got := m.PoolOf(c.labels); got.Name != c.want {
			t.Errorf("%v: %s, want %s", c.labels, got.Name, c.want)
		}
	}
	if got := (Membership{}).PoolOf(nil); got != nil {
		t.Errorf("without pools: %s", got.Name)
	}
}

func TestKernelArgumentsHash(t *testing.T) {
	for joined, want := range map[string]string{
		"": "", KernelArguments(nil): "", "quiet": "008f0747f4e27c84", KernelArguments([]string{"quiet", "a=b"}): KernelArgumentsHash("quiet a=b"),
	} {
		if got := KernelArgumentsHash(joined); got != want {
			t.Errorf("%q: %q, want %q", joined, got, want)
		}
	}
}

func TestBad(t *testing.T) {
	failed := func(reason, arguments string) *NodeImage {
		return &NodeImage{Status: NodeImageStatus{Failed: []NodeImageFailure{{Node: "w1", Reason: reason, KernelArguments: arguments}}}}
	}
	for _, c := range []struct {
		image     *NodeImage
		arguments string
		want      bool
	}{
		{&NodeImage{}, "", false},
		{failed(ReasonImageFailed, ""), "quiet", true},
		{failed(ReasonNodeLost, ""), "", true},
		{failed(ReasonKernelArgumentsFailed, "quiet"), "quiet", true},
		{failed(ReasonKernelArgumentsFailed, "quiet"), "", false},
	} {
		if got := c.image.Bad(c.arguments); (got != nil) != c.want {
			t.Errorf("%+v with %q: %v", c.image.Status.Failed, c.arguments, got)
		}
	}
}
