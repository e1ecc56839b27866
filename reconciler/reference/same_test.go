package reference

import (
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema"
)

// TestSame: facts are the same wherever they are written, and other ones when
// anything differs that another object may be held against.
func TestSame(t *testing.T) {
	whole := func() *Facts {
		return &Facts{
			Pods:    &Pods{Labels: labels.Set{"app": "web"}, Ports: []string{"http"}},
			Selects: &Selects{Selector: labels.SelectorFromSet(labels.Set{"app": "web"}), Named: []NamedPort{{Name: "http"}}},
			Ports:   []Port{{"http", "80"}},
			Needs:   []Need{{Ref: render.Ref{Key: schema.Key{Namespace: "shop", Name: "web"}}, Port: "http"}, {Ref: render.Ref{Key: schema.Key{Namespace: "shop", Name: "settings"}}}},
		}
	}
	for _, tt := range []struct {
		name   string
		change func(*Facts)
		same   bool
	}{
		{"nothing", func(*Facts) {}, true},
		{"the line of the selector", func(f *Facts) { f.Selects.Line = 7 }, true},
		{"a need of no port", func(f *Facts) { f.Needs = f.Needs[:1] }, true},
		{"a label of the pods", func(f *Facts) { f.Pods.Labels["app"] = "shop" }, false},
		{"a port of the pods", func(f *Facts) { f.Pods.Ports = nil }, false},
		{"no pods", func(f *Facts) { f.Pods = nil }, false},
		{"the selector", func(f *Facts) { f.Selects.Selector = labels.Everything() }, false},
		{"a port that is named", func(f *Facts) { f.Selects.Named[0].Name = "https" }, false},
		{"no selector", func(f *Facts) { f.Selects = nil }, false},
		{"a port of the Service", func(f *Facts) { f.Ports[0].Number = "81" }, false},
		{"ports that nobody knows", func(f *Facts) { f.Any = true }, false},
		{"the port that is needed", func(f *Facts) { f.Needs[0].Port = "https" }, false},
		{"a custom resource", func(f *Facts) { f.Operated = true }, false},
		{"encrypted pods", func(f *Facts) { f.Opaque = true }, false},
	} {
		other := whole()
		tt.change(other)
		if got := whole().Same(other); got != tt.same || other.Same(whole()) != tt.same {
			t.Errorf("%s: same is %v", tt.name, got)
		}
	}
}
