package schema

import (
	"context"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource is one row of the resource table: everything about a kind that is
// data, not behaviour. The rows are written in CUE (schema/cue/resources.cue)
// and generated into zz_resources.go; nobody types them a second time.
type Resource struct {
	Group    string // "" for core
	Version  string
	Kind     string
	ListKind string
	Plural   string
	Singular string

	ShortNames []string
	Categories []string
	Namespaced bool

	// Status says that the kind has a status subresource.
	Status bool
	// Scale says that the kind has an autoscaling/v1 scale subresource.
	Scale bool
	// Subresources are the others: "log", "binding", "token", "eviction", ...
	Subresources []string

	// StoragePrefix is the path below /registry/ in etcd, as upstream's
	// kube-apiserver writes it: "pods", "services/specs", "deployments", ...
	StoragePrefix string

	// Columns are all columns of a Table in their order, name and age included.
	Columns []Column

	// Immutable are JSON paths ("spec.selector") that no update may change
	// once they are set.
	Immutable []string
	// SelectableFields are field selectors besides metadata.name and
	// metadata.namespace.
	SelectableFields []string

	// Storage is the resource as which the store keeps the objects of this one;
	// nil when it is this one: autoscaling/v1 is kept as autoscaling/v2. Of a
	// custom resource it is a row without version that lives as long as the
	// definition does, while the rows of its versions come and go with changes.
	Storage *Resource
	// Convert brings objects of any version of the kind to this version, in
	// order; objects that have it already come back as they are. It may ask a
	// webhook. nil where there is one version only.
	Convert func(ctx context.Context, in []Object) ([]Object, error)
	// Custom is what a CustomResourceDefinition says; nil for built-in kinds.
	Custom Custom
	// FieldLabels are the names that field selectors use in this version for
	// the SelectableFields of Storage; nil where they are the same.
	FieldLabels map[string]string
	// Deprecated is the warning that requests to this version carry; "" none.
	Deprecated string

	// New returns an empty object of the kind, apiVersion and kind set.
	New func() Object
	// NewList returns an empty list of the kind, apiVersion and kind set.
	NewList func() metav1.ListInterface
}

// Column is one column of a Table. Its value comes from Path, a JSON path into
// the object ("status.phase"), or, where a path cannot say it, from the
// function that the API server keeps under the name Func. ColumnFuncs lists
// the names.
type Column struct {
	Name        string
	Type        string // "string", "integer", "date", "boolean"
	Cell        string // the type of the cells, where it is another
	Format      string
	Description string
	Priority    int32 // 0 always, 1 only with -o wide
	Path        string
	Func        string
	// Absent is shown where Path finds nothing, or an empty string. Numbers of
	// a Path that finds nothing are 0 if the Type is integer.
	Absent string
}

// Definition names the CUE definition of the kind: the kind, and its group and
// version before it where the kind is a second version of another.
func (r *Resource) Definition() string {
	if r.Storage == nil || r.Custom != nil {
		return r.Kind
	}
	group, _, _ := strings.Cut(r.Group, ".")
	return strings.ToUpper(group[:1]) + group[1:] + strings.ToUpper(r.Version) + r.Kind
}

// Stored is the resource as which the store keeps objects of this one.
func (r *Resource) Stored() *Resource {
	if r.Storage != nil {
		return r.Storage
	}
	return r
}

// GVK returns the kind with its group and version.
func (r *Resource) GVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
}

// GVR returns the resource with its group and version.
func (r *Resource) GVR() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Plural}
}

// GroupResource returns the resource with its group, as errors name it.
func (r *Resource) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.Group, Resource: r.Plural}
}

// APIVersion returns "v1" or "apps/v1".
func (r *Resource) APIVersion() string {
	return schema.GroupVersion{Group: r.Group, Version: r.Version}.String()
}

// String returns "pods" or "deployments.apps".
func (r *Resource) String() string { return r.GroupResource().String() }

var (
	byGVR  = map[schema.GroupVersionResource]*Resource{}
	byGVK  = map[schema.GroupVersionKind]*Resource{}
	byType = map[reflect.Type]*Resource{}
)

func init() {
	for _, r := range Resources {
		byGVR[r.GVR()] = r
		byGVK[r.GVK()] = r
		byType[reflect.TypeOf(r.New())] = r
	}
}

// ByGVR finds a resource of the table; nil when there is none.
func ByGVR(gvr schema.GroupVersionResource) *Resource { return byGVR[gvr] }

// ByGVK finds a resource by its kind; nil when there is none.
func ByGVK(gvk schema.GroupVersionKind) *Resource { return byGVK[gvk] }

// ResourceOf finds the resource of an object by its Go type; nil when the type
// is not in the table.
func ResourceOf(o Object) *Resource { return byType[reflect.TypeOf(o)] }

// ResourceFor finds the resource of a Go type: ResourceFor[*corev1.Pod](). It
// panics when the type is not in the table, which is a mistake of the caller.
func ResourceFor[T Object]() *Resource {
	r := byType[reflect.TypeFor[T]()]
	if r == nil {
		panic("schema: no resource for type " + reflect.TypeFor[T]().String())
	}
	return r
}
