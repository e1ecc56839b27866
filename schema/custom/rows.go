package custom

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/version"

	"github.com/writ-os/writ/schema"
)

// Post sends a ConversionReview to the webhook of a definition and returns the
// body of the answer. Both are JSON. It bounds time and size.
type Post func(ctx context.Context, review []byte) (answer []byte, err error)

// Rows are what one definition adds to a catalog.
type Rows struct {
	// Stored is the row as which the store keeps the objects: the same pointer
	// for as long as the definition lives. Its Convert brings objects to the
	// version that is stored now.
	Stored *schema.Resource
	// Served has one row for each served version, those that clients should
	// prefer first.
	Served []*schema.Resource

	now *atomic.Pointer[definition] // what Stored says
}

// definition is one state of a definition.
type definition struct {
	def      *apiextensionsv1.CustomResourceDefinition
	versions map[string]*Version
	storage  string
	post     Post

	typesMu sync.Mutex
	types   managedfields.TypeConverter // nil until asked for
}

// Resources returns the rows of a definition, which must have its defaults and
// be valid, and which nobody may change after. before are the rows of an
// earlier state of the same definition, nil for a new one. post asks the
// conversion webhook; nil where there is none.
//
// Names are those that the cluster has accepted, or, of a definition without a
// status, those that it asks for.
func Resources(def *apiextensionsv1.CustomResourceDefinition, before *Rows, post Post) (*Rows, error) {
	d := &definition{def: def, versions: map[string]*Version{}, post: post}
	names := acceptedNames(def)
	if names.Plural == "" || names.Kind == "" || names.ListKind == "" || names.Singular == "" {
		return nil, fmt.Errorf("definition %s: names are incomplete: plural %q, singular %q, kind %q, listKind %q",
			def.Name, names.Plural, names.Singular, names.Kind, names.ListKind)
	}
	for i := range def.Spec.Versions {
		v := &def.Spec.Versions[i]
		d.versions[v.Name] = newVersion(d, v)
		if v.Storage {
			d.storage = v.Name
		}
	}
	if d.storage == "" {
		return nil, fmt.Errorf("definition %s: no version is stored: set storage: true on one", def.Name)
	}
	rows := &Rows{}
	if before != nil {
		rows.Stored, rows.now = before.Stored, before.now
		d.inherit(before.now.Load())
	} else {
		rows.now = &atomic.Pointer[definition]{}
		rows.Stored = storedRow(def, names, rows.now)
	}
	rows.now.Store(d)
	for _, v := range d.versions {
		if v.spec.Served {
			rows.Served = append(rows.Served, d.row(v, names, rows.Stored))
		}
	}
	sort.Slice(rows.Served, func(i, j int) bool {
		return version.CompareKubeAwareVersionStrings(rows.Served[i].Version, rows.Served[j].Version) > 0
	})
	return rows, nil
}

// inherit takes over what was made for an earlier state that has the same spec:
// most changes of a definition are of its status.
func (d *definition) inherit(old *definition) {
	if !equality.Semantic.DeepEqual(d.def.Spec, old.def.Spec) {
		return
	}
	for name, v := range d.versions {
		o := old.versions[name]
		o.mu.Lock()
		v.made, v.used = o.made, o.used
		o.mu.Unlock()
	}
	old.typesMu.Lock()
	defer old.typesMu.Unlock()
	d.types = old.types
}

// Release drops what has been made of schemas that nobody has asked for since.
func (r *Rows) Release(since time.Time) {
	d, idle := r.now.Load(), true
	for _, v := range d.versions {
		idle = v.release(since) && idle
	}
	if idle {
		d.typesMu.Lock()
		defer d.typesMu.Unlock()
		d.types = nil
	}
}

func acceptedNames(def *apiextensionsv1.CustomResourceDefinition) apiextensionsv1.CustomResourceDefinitionNames {
	if names := def.Status.AcceptedNames; names.Plural != "" {
		return names
	}
	return def.Spec.Names
}

// storedRow is the row of no version. It reads now whenever it is asked, as
// definitions change while the store holds the row.
func storedRow(def *apiextensionsv1.CustomResourceDefinition, names apiextensionsv1.CustomResourceDefinitionNames, now *atomic.Pointer[definition]) *schema.Resource {
	r := baseRow(def, names)
	r.Convert = func(ctx context.Context, in []schema.Object) ([]schema.Object, error) {
		d := now.Load()
		return d.convert(ctx, in, d.storage)
	}
	r.New = func() schema.Object {
		d := now.Load()
		return newObject(d.def.Spec.Group+"/"+d.storage, acceptedNames(d.def).Kind)
	}
	r.NewList = func() metav1.ListInterface {
		d := now.Load()
		return newList(d.def.Spec.Group+"/"+d.storage, acceptedNames(d.def).ListKind)
	}
	return r
}

// row is the row of one served version.
func (d *definition) row(v *Version, names apiextensionsv1.CustomResourceDefinitionNames, stored *schema.Resource) *schema.Resource {
	r := baseRow(d.def, names)
	r.Version = v.spec.Name
	r.ShortNames, r.Categories = names.ShortNames, names.Categories
	if s := v.spec.Subresources; s != nil {
		r.Status, r.Scale = s.Status != nil, s.Scale != nil
	}
	r.Columns = columns(v.spec.AdditionalPrinterColumns)
	for _, f := range v.spec.SelectableFields {
		r.SelectableFields = append(r.SelectableFields, strings.TrimPrefix(f.JSONPath, "."))
	}
	r.Storage = stored
	r.Custom = v
	r.Deprecated = deprecation(d.def, v.spec)
	if len(d.versions) > 1 {
		to := v.spec.Name
		r.Convert = func(ctx context.Context, in []schema.Object) ([]schema.Object, error) { return d.convert(ctx, in, to) }
	}
	r.New = func() schema.Object { return newObject(v.apiVersion, r.Kind) }
	r.NewList = func() metav1.ListInterface { return newList(v.apiVersion, r.ListKind) }
	return r
}

func baseRow(def *apiextensionsv1.CustomResourceDefinition, names apiextensionsv1.CustomResourceDefinitionNames) *schema.Resource {
	return &schema.Resource{
		Group: def.Spec.Group, Kind: names.Kind, ListKind: names.ListKind,
		Plural: names.Plural, Singular: names.Singular,
		Namespaced:    def.Spec.Scope == apiextensionsv1.NamespaceScoped,
		StoragePrefix: def.Spec.Group + "/" + names.Plural,
	}
}

func newObject(apiVersion, kind string) schema.Object {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
}

func newList(apiVersion, kind string) metav1.ListInterface {
	return &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
}

// columns are the name and what the definition asks for, the age if it asks for
// nothing. Paths are JSON paths as the definition has them (".spec.replicas").
func columns(defined []apiextensionsv1.CustomResourceColumnDefinition) []schema.Column {
	docs := metav1.ObjectMeta{}.SwaggerDoc()
	out := []schema.Column{{Name: "Name", Type: "string", Format: "name", Description: docs["name"], Path: "metadata.name"}}
	if len(defined) == 0 {
		return append(out, schema.Column{Name: "Age", Type: "date", Description: docs["creationTimestamp"], Path: ".metadata.creationTimestamp"})
	}
	for _, c := range defined {
		text := c.Description
		if text == "" {
			text = "Custom resource definition column (in JSONPath format): " + c.JSONPath
		}
		out = append(out, schema.Column{Name: c.Name, Type: c.Type, Format: c.Format, Description: text, Priority: c.Priority, Path: c.JSONPath})
	}
	return out
}

// deprecation is the warning of a version, with upstream's words where the
// definition has none.
func deprecation(def *apiextensionsv1.CustomResourceDefinition, v *apiextensionsv1.CustomResourceDefinitionVersion) string {
	if !v.Deprecated {
		return ""
	}
	if v.DeprecationWarning != nil {
		return *v.DeprecationWarning
	}
	text := fmt.Sprintf("%s/%s %s is deprecated", def.Spec.Group, v.Name, def.Spec.Names.Kind)
	best := ""
	for _, o := range def.Spec.Versions {
		if o.Served && !o.Deprecated && version.CompareKubeAwareVersionStrings(v.Name, o.Name) < 0 &&
			(best == "" || version.CompareKubeAwareVersionStrings(o.Name, best) > 0) {
			best = o.Name
		}
	}
	if best == "" {
		return text
	}
	return fmt.Sprintf("%s; use %s/%s %s", text, def.Spec.Group, best, def.Spec.Names.Kind)
}
