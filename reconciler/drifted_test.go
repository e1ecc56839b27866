package reconciler

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
)

// What a controller notes on every Deployment is no reason to look at all of them
// again; what anybody else changes beside it is.
func TestDrifted(t *testing.T) {
	d := func(generation int64, labels, notes map[string]string) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: generation, Labels: labels, Annotations: notes}}
	}
	type m = map[string]string
	for name, c := range map[string]struct {
		old, now *appsv1.Deployment
		want     bool
	}{
		"status":                          {d(1, nil, nil), d(1, nil, nil), false},
		"spec":                            {d(1, nil, nil), d(2, nil, nil), true},
		"no generation":                   {d(0, nil, nil), d(0, nil, nil), true},
		"label":                           {d(1, nil, nil), d(1, m{"a": "b"}, nil), true},
		"annotation":                      {d(1, nil, m{"a": "b"}), d(1, nil, nil), true},
		"first revision":                  {d(1, nil, nil), d(1, nil, m{revision: "1"}), false},
		"first revision beside another":   {d(1, nil, m{"a": "b"}), d(1, nil, m{"a": "b", revision: "1"}), false},
		"next revision":                   {d(1, nil, m{revision: "1"}), d(1, nil, m{revision: "2"}), false},
		"revision goes":                   {d(1, nil, m{revision: "1"}), d(1, nil, nil), false},
		"revision and another annotation": {d(1, nil, m{revision: "1"}), d(1, nil, m{revision: "2", "a": "b"}), true},
		"revision and an annotation goes": {d(1, nil, m{"a": "b"}), d(1, nil, m{revision: "1"}), true},
		"revision and a label":            {d(1, nil, nil), d(1, m{"a": "b"}, m{revision: "1"}), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := drifted(client.Event{Type: client.Modified, Object: c.now, Old: c.old}); got != c.want {
				t.Errorf("drifted %v, want %v", got, c.want)
			}
		})
	}
	for kind, want := range map[client.EventType]bool{client.Added: false, client.Deleted: true} {
		if got := drifted(client.Event{Type: kind, Object: d(1, nil, nil)}); got != want {
			t.Errorf("%v: drifted %v, want %v", kind, got, want)
		}
	}
}
