package reference

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
)

// Same says whether Space finds the same of an object by other facts: what it
// asks of others and what others may ask of it, wherever that is written.
func (f *Facts) Same(o *Facts) bool {
	return f.Any == o.Any && f.Operated == o.Operated && f.Opaque == o.Opaque && slices.Equal(f.Ports, o.Ports) &&
		f.Pods.same(o.Pods) && f.Selects.same(o.Selects) && slices.EqualFunc(f.backends(), o.backends(), func(a, b Need) bool { return a.Ref == b.Ref && a.Port == b.Port && a.Why == b.Why })
}

// backends are the needs of a port.
func (f *Facts) backends() []Need {
	var out []Need
	for i := range f.Needs {
		if f.Needs[i].Port != "" {
			out = append(out, f.Needs[i])
		}
	}
	return out
}

func (p *Pods) same(o *Pods) bool {
	if p == nil || o == nil {
		return p == o
	}
	return maps.Equal(p.Labels, o.Labels) && slices.Equal(p.Ports, o.Ports)
}

func (s *Selects) same(o *Selects) bool {
	if s == nil || o == nil {
		return s == o
	}
	return text(s.Selector) == text(o.Selector) && slices.EqualFunc(s.Named, o.Named, func(a, b NamedPort) bool { return a.Name == b.Name })
}

func text(s labels.Selector) string {
	if s == nil {
		return ""
	}
	return s.String()
}
