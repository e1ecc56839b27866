package health

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/schema/v1alpha1"
)

func TestNodePool(t *testing.T) {
	pool := func(observed int64, conditions ...metav1.Condition) *v1alpha1.NodePool {
		return &v1alpha1.NodePool{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Status: v1alpha1.NodePoolStatus{ObservedGeneration: observed, Conditions: conditions}}
	}
	is := func(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
	}
	calm := is("Degraded", "False", "Updating", "")
	for name, c := range map[string]struct {
		o    *v1alpha1.NodePool
		want Health
	}{
		"never seen":         {&v1alpha1.NodePool{}, Health{Status: Progressing, Message: notSeen}},
		"seen as it was":     {pool(1, is("Ready", "True", "UpToDate", "")), Health{Status: Progressing, Message: notSeen}},
		"up to date":         {pool(2, is("Ready", "True", "UpToDate", "3 nodes are up to date"), calm), Health{Status: Healthy}},
		"under way":          {pool(2, is("Ready", "False", "Updating", "1 of 3 nodes are updated"), calm), Health{Status: Progressing, Message: "1 of 3 nodes are updated"}},
		"paused":             {pool(2, is("Ready", "False", "Paused", "the pool is paused"), calm), Health{Status: Healthy, Message: "the pool is paused"}},
		"waits for a window": {pool(2, is("Ready", "False", "OutsideWindow", "at night"), calm), Health{Status: Healthy, Message: "at night"}},
		"a node is not well": {pool(2, is("Ready", "False", "NodesNotReady", "1 of 3"), calm), Health{Status: Progressing, Message: "1 of 3"}},
		"stopped":            {pool(2, is("Ready", "False", "ImageFailed", "v2 failed on node w1"), is("Degraded", "True", "ImageFailed", "v2 failed on node w1")), Health{Status: Degraded, Message: "v2 failed on node w1"}},
		"stopped for good":   {pool(2, is("Degraded", "True", "ImageFailed", "v2 failed"), is("Stalled", "True", "ImageFailed", "v2 failed")), Health{Status: Degraded, Message: "v2 failed", Stalled: true}},
		"stopped, paused":    {pool(2, is("Degraded", "True", "DrainBlocked", "a budget"), is("Ready", "False", "Paused", "x")), Health{Status: Degraded, Message: "a budget"}},
	} {
		if got := Of(c.o); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestNodeImage(t *testing.T) {
	if got := Of(&v1alpha1.NodeImage{}); got.Status != Healthy {
		t.Errorf("new: %+v", got)
	}
	i := &v1alpha1.NodeImage{Status: v1alpha1.NodeImageStatus{Failed: []v1alpha1.NodeImageFailure{{Node: "w1", Reason: "NodeLost", Message: "not back"}, {Node: "w2"}}}}
	if got, want := Of(i), (Health{Status: Healthy, Message: "failed on node w1: not back"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
