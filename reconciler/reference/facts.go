package reference

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Rules of findings of this package.
const (
	RuleMissing = "MissingReference" // an object that is not there
	RuleKey     = "MissingKey"       // a key of a ConfigMap or a Secret that is not there
	RulePort    = "MissingPort"      // a port that is not there
	RuleNone    = "SelectsNothing"   // a selector of no pods
	RuleLater   = "LaterWave"        // an object that comes only after what needs it
)

// Place is where a value is written, and which field of its object that is.
type Place struct {
	Field, File  string
	Line, Column int
}

// Need is an object that another one speaks of.
type Need struct {
	Place
	Ref render.Ref
	// Why says what does not work without it.
	Why string
	// Port of a Service that is meant, by name or by number; "": none.
	Port   string
	PortAt Place
	// Keys of a ConfigMap or a Secret that are meant; none: whatever it has.
	Keys []Key
}

// Pods are what an object makes pods of, or a Pod itself.
type Pods struct {
	Labels labels.Set
	Ports  []string // names
}

// Selects is a selector of pods.
type Selects struct {
	Place
	Selector labels.Selector
	// Named are the ports of the pods that are named.
	Named []NamedPort
}

// NamedPort is a port of pods that a Service names.
type NamedPort struct {
	Place
	Name string
}

// Facts are what an object says of others, and what others may say of it.
type Facts struct {
	Needs   []Need
	Pods    *Pods
	Selects *Selects
	// Ports of a Service: the names and numbers of each. Any says that they are
	// not to be known.
	Ports []Port
	Any   bool
	// Operated says that the object is a custom resource, of which an operator
	// may make anything. Makes are names of Secrets and the like that an object
	// speaks of to a program: a custom resource, or the arguments of a Job.
	Operated bool
	Makes    []string
	// Class is the class of storage that a PersistentVolume is of.
	Class string
	// Opaque says that the object makes pods of which nothing may be said, for it
	// is encrypted in the repository.
	Opaque bool
}

// Port is one port of a Service.
type Port struct{ Name, Number string }

// Joins says whether the facts are to be held against those of other objects
// of the namespace, and not each by itself.
func (f *Facts) Joins() bool {
	return f.Pods != nil || f.Selects != nil || len(f.Ports) > 0 || f.Any || f.Operated || len(f.Makes) > 0 || f.Opaque || f.Class != "" || slices.ContainsFunc(f.Needs, func(n Need) bool { return n.Port != "" })
}

// Of returns the facts of a manifest; nil where there are none.
func Of(m *render.Manifest) *Facts {
	r := &reader{f: &Facts{}, namespace: m.Key.Namespace}
	v := m.Value()
	switch {
	case m.Resource.Custom != nil:
		r.custom(v)
	case m.Resource.Group == v1alpha1.GroupVersion.Group:
		return nil // they have rules of their own
	default:
		r.builtIn(m.Resource.Kind, v)
	}
	if len(r.f.Needs) == 0 && !r.f.Joins() {
		return nil
	}
	if m.Sealed || m.Masked {
		return &Facts{Opaque: r.f.Pods != nil, Any: r.f.Any || len(r.f.Ports) > 0, Operated: r.f.Operated}
	}
	return r.f
}

// reader gathers the facts of one object.
type reader struct {
	f         *Facts
	namespace string
}

// resources are those that are spoken of, by kind.
var resources = func() map[string]*schema.Resource {
	out := map[string]*schema.Resource{}
	for _, gvk := range []kschema.GroupVersionKind{
		{Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "Secret"}, {Version: "v1", Kind: "ServiceAccount"}, {Version: "v1", Kind: "Service"},
		{Version: "v1", Kind: "PersistentVolumeClaim"}, {Version: "v1", Kind: "PersistentVolume"}, {Version: "v1", Kind: "Pod"},
		{Group: "scheduling.k8s.io", Version: "v1", Kind: "PriorityClass"}, {Group: "storage.k8s.io", Version: "v1", Kind: "StorageClass"},
		{Group: "node.k8s.io", Version: "v1", Kind: "RuntimeClass"}, {Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
	} {
		if r := schema.ByGVK(gvk); r != nil {
			out[gvk.Kind] = r
		}
	}
	return out
}()

// Resource is the row of a kind that objects speak of.
func Resource(kind string) *schema.Resource { return resources[kind] }

// given are objects that every cluster has without anybody declaring them.
var given = map[string]bool{
	"ServiceAccount/default": true, "ConfigMap/kube-root-ca.crt": true,
	"PriorityClass/system-cluster-critical": true, "PriorityClass/system-node-critical": true, "Service/kubernetes": true,
	"ClusterRole/cluster-admin": true, "ClusterRole/admin": true, "ClusterRole/edit": true, "ClusterRole/view": true,
	"Role/extension-apiserver-authentication-reader": true,
}

// need notes that the object speaks of another, by the name that a value has.
func (r *reader) need(kind, namespace string, v render.Value, field, why string) *Need {
	name, res := v.Text(), resources[kind]
	if name == "" || res == nil || res.Namespaced && namespace == "" || given[kind+"/"+name] {
		return nil
	}
	if !res.Namespaced {
		namespace = ""
	}
	r.f.Needs = append(r.f.Needs, Need{Place: place(v, field), Ref: render.Ref{Resource: res, Key: schema.Key{Namespace: namespace, Name: name}}, Why: why})
	return &r.f.Needs[len(r.f.Needs)-1]
}

func place(v render.Value, field string) Place {
	p := Place{Field: field}
	p.File, p.Line, p.Column = v.Place()
	return p
}
