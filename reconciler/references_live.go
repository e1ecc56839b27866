package reconciler

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/reference"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema"
)

// cluster is what is asked of the cluster about references; nil: there is none.
type cluster struct {
	live       plan.Live
	unreadable func(*schema.Resource) bool
	listed     map[string][]schema.Object // what was listed, by kind and namespace
}

func (w *World) cluster() *cluster {
	if w.Assumed {
		return nil
	}
	return &cluster{w.Live, w.Unreadable, map[string][]schema.Object{}}
}

// has says whether an object is there, or cannot be seen.
func (c *cluster) has(ref render.Ref) bool {
	if c == nil {
		return false
	}
	if c.unreadable != nil && c.unreadable(ref.Resource) {
		return true
	}
	o, ok := c.live.Get(ref.Resource, ref.Key)
	return ok && o.GetDeletionTimestamp() == nil
}

// hasKey says whether the object that is there has a key, whoever has written it,
// or cannot be seen.
func (c *cluster) hasKey(ref render.Ref, key string) bool {
	if c == nil {
		return false
	}
	if c.unreadable != nil && c.unreadable(ref.Resource) {
		return true // nobody knows
	}
	o, _ := c.live.Get(ref.Resource, ref.Key)
	ok := false
	switch o := o.(type) {
	case *corev1.ConfigMap:
		if _, ok = o.Data[key]; !ok {
			_, ok = o.BinaryData[key]
		}
	case *corev1.Secret:
		_, ok = o.Data[key]
	}
	return ok
}

// lister is a plan.Live that can say which objects there are of a kind.
type lister interface {
	List(r *schema.Resource, namespace string) []schema.Object
}

// list yields the live objects of a kind; false: they cannot be seen.
func (c *cluster) list(kind, namespace string) ([]schema.Object, bool) {
	l, ok := c.live.(lister)
	r := reference.Resource(kind)
	if !ok || r == nil || c.unreadable != nil && c.unreadable(r) {
		return nil, false
	}
	all, known := c.listed[kind+"/"+namespace]
	if !known {
		all = l.List(r, namespace)
		c.listed[kind+"/"+namespace] = all
	}
	return all, true
}

// selects says whether a selector selects live pods, or might. No selector
// selects any.
func (c *cluster) selects(namespace string, s labels.Selector) bool {
	if c == nil || s == nil {
		return false
	}
	pods, seen := c.list("Pod", namespace)
	for _, o := range pods {
		if s.Matches(labels.Set(o.GetLabels())) {
			return true
		}
	}
	return !seen
}

// classed says whether a live volume is of a class.
func (c *cluster) classed(class string) bool {
	if c == nil {
		return false
	}
	volumes, _ := c.list("PersistentVolume", "")
	for _, o := range volumes {
		if v, ok := o.(*corev1.PersistentVolume); ok && v.Spec.StorageClassName == class {
			return true
		}
	}
	return false
}

// Asked are the kinds of which the cluster is asked to know whether what
// manifests speak of is there.
func Asked(manifests []render.Manifest) map[*schema.Resource]bool {
	out := map[*schema.Resource]bool{}
	declared := make(map[render.Ref]bool, len(manifests))
	for i := range manifests {
		declared[manifests[i].Ref] = true
	}
	spaces := map[string][]reference.Entry{}
	for i := range manifests {
		m := &manifests[i]
		f := reference.Of(m)
		if f == nil {
			continue
		}
		for j := range f.Needs {
			if r := f.Needs[j].Ref; !declared[r] {
				out[r.Resource] = true
				if r.Resource.Kind == "StorageClass" {
					out[reference.Resource("PersistentVolume")] = true
				}
			}
		}
		spaces[m.Key.Namespace] = append(spaces[m.Key.Namespace], reference.Entry{Head: &m.Head, Facts: f})
	}
	for _, entries := range spaces {
		for _, s := range reference.Space(entries) {
			if s.Selector != nil {
				out[reference.Resource("Pod")] = true
			}
		}
	}
	return out
}
