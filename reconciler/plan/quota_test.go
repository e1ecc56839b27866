package plan

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema"
)

// TestOverQuota: what of new custom resources a quota refuses that the server
// cannot be asked about.
func TestOverQuota(t *testing.T) {
	const count = "count/foos.t.dev"
	foos := &schema.Resource{Group: "t.dev", Version: "v1", Kind: "Foo", Plural: "foos", Namespaced: true}
	quota := func(name string, limits map[corev1.ResourceName]string, used string) *corev1.ResourceQuota {
		q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "a"}}
		for name, limit := range limits {
			if q.Spec.Hard == nil {
				q.Spec.Hard = corev1.ResourceList{}
			}
			q.Spec.Hard[name] = resource.MustParse(limit)
		}
		if used != "" {
			q.Status.Used = corev1.ResourceList{count: resource.MustParse(used)}
		}
		return q
	}
	op := func(a Action, r *schema.Resource, namespace, name string, o schema.Object) Op {
		return Op{Action: a, Head: render.Head{Ref: render.Ref{Resource: r, Key: schema.Key{Namespace: namespace, Name: name}}}, Object: o}
	}
	foo := func(namespace, name string) Op { return op(Create, foos, namespace, name, nil) }
	of := func(a Action, q *corev1.ResourceQuota) Op {
		if a == Delete {
			return op(a, schema.ResourceFor[*corev1.ResourceQuota](), "a", q.Name, nil)
		}
		return op(a, schema.ResourceFor[*corev1.ResourceQuota](), "a", q.Name, q)
	}
	one := map[corev1.ResourceName]string{count: "1"}
	two := []Op{foo("a", "x"), foo("a", "y")}
	for _, tt := range []struct {
		name string
		live []*corev1.ResourceQuota
		ops  []Op // besides what is held
		held []Op
		want []string
	}{
		{"no quota", nil, nil, two, nil},
		{"a quota of the plan", nil, []Op{of(Create, quota("q", one, ""))}, two, []string{"y"}},
		{"a quota of the cluster", []*corev1.ResourceQuota{quota("q", one, "")}, nil, two, []string{"y"}},
		{"used", []*corev1.ResourceQuota{quota("q", one, "1")}, nil, two, []string{"x", "y"}},
		{"used by what the plan deletes", []*corev1.ResourceQuota{quota("q", one, "1")}, []Op{op(Delete, foos, "a", "z", nil), op(Delete, foos, "b", "z", nil)}, two, []string{"y"}},
		{"another namespace", []*corev1.ResourceQuota{quota("q", one, "")}, nil, []Op{foo("b", "x"), foo("b", "y")}, nil},
		{"of something else", []*corev1.ResourceQuota{quota("q", map[corev1.ResourceName]string{"count/bars.t.dev": "0"}, "")}, nil, two, nil},
		{"raised by the plan", []*corev1.ResourceQuota{quota("q", one, "1")}, []Op{of(Update, quota("q", map[corev1.ResourceName]string{count: "3"}, ""))}, two, nil},
		{"a limit of others", []*corev1.ResourceQuota{quota("q", one, "")}, []Op{of(Update, quota("q", map[corev1.ResourceName]string{"pods": "1"}, ""))}, two, []string{"y"}},
		{"no limit before", []*corev1.ResourceQuota{quota("q", nil, "")}, []Op{of(Update, quota("q", one, ""))}, two, []string{"y"}},
		{"a quota that goes", []*corev1.ResourceQuota{quota("q", one, "1")}, []Op{of(Delete, quota("q", nil, ""))}, two, nil},
		{"two quotas", []*corev1.ResourceQuota{quota("p", map[corev1.ResourceName]string{count: "2"}, ""), quota("q", one, "")}, nil, two, []string{"y"}},
		{"a change", []*corev1.ResourceQuota{quota("q", one, "1")}, nil, []Op{op(Update, foos, "a", "x", nil)}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := client.NewFake()
			for _, q := range tt.live {
				f.Put(q)
			}
			var held []Held
			for _, o := range tt.held {
				held = append(held, Held{o, Definition + "/foos.t.dev"})
			}
			var got []string
			for _, finding := range OverQuota(&Plan{Ops: append(tt.ops, tt.held...)}, held, f.Cache()) {
				got = append(got, finding.Object[len("Foo/a/"):])
			}
			if len(got) != len(tt.want) || len(got) > 0 && got[len(got)-1] != tt.want[len(tt.want)-1] {
				t.Errorf("refused %v, want %v", got, tt.want)
			}
		})
	}
}
