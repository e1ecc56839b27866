package main

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// row is one resource of the table, as resources.cue says it.
type row struct {
	Group            string   `json:"group"`
	Version          string   `json:"version"`
	Kind             string   `json:"kind"`
	Plural           string   `json:"plural"`
	ShortNames       []string `json:"shortNames"`
	Categories       []string `json:"categories"`
	Namespaced       bool     `json:"namespaced"`
	Status           bool     `json:"status"`
	Scale            bool     `json:"scale"`
	Subresources     []string `json:"subresources"`
	StoragePrefix    string   `json:"storagePrefix"`
	Columns          []column `json:"columns"`
	Immutable        []string `json:"immutable"`
	SelectableFields []string `json:"selectableFields"`

	StoredAs    *storedAs         `json:"storedAs"`
	FieldLabels map[string]string `json:"fieldLabels"`
	Deprecated  string            `json:"deprecated"`

	// DescribedBy is the version whose words the columns carry, "" for its own.
	DescribedBy string `json:"describedBy"`

	// Type is the Go type of the kind, a struct.
	Type reflect.Type `json:"-"`
}

type column struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Cell        string `json:"cell"`
	Format      string `json:"format"`
	Description string `json:"description"`
	Doc         string `json:"doc"`
	Wide        bool   `json:"wide"`
	Path        string `json:"path"`
	Func        string `json:"func"`
	Absent      string `json:"absent"`
}

// storedAs is the group and version as which a second version is kept.
type storedAs struct {
	Group   string `json:"group"`
	Version string `json:"version"`
}

// Definition names the CUE definition of the kind: the kind, and its group and
// version before it where the kind is a second version of another.
// schema.Resource.Definition says the same.
func (r *row) Definition() string {
	if r.StoredAs == nil {
		return r.Kind
	}
	group, _, _ := strings.Cut(r.Group, ".")
	return strings.ToUpper(group[:1]) + group[1:] + strings.ToUpper(r.Version) + r.Kind
}

// described is the Go type whose fields have the words of the columns.
func (r *row) described() reflect.Type {
	if r.DescribedBy == "" {
		return r.Type
	}
	o, err := goTypes.New(kschema.GroupVersionKind{Group: r.Group, Version: r.DescribedBy, Kind: r.Kind})
	if err != nil {
		return r.Type // readTable has refused it
	}
	return reflect.TypeOf(o).Elem()
}

// APIVersion returns "v1" or "apps/v1".
func (r *row) APIVersion() string {
	return kschema.GroupVersion{Group: r.Group, Version: r.Version}.String()
}

// goTypes knows the Go type of every kind.
var goTypes = func() *runtime.Scheme {
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme} {
		if err := add(clientscheme.Scheme); err != nil {
			panic(err)
		}
	}
	return clientscheme.Scheme
}()

// readTable reads the table and finds the Go type of each row.
func readTable(path string) ([]*row, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	v := cuecontext.New().CompileBytes(src, cue.Filename(path))
	v = v.LookupPath(cue.ParsePath("resources"))
	if err := v.Validate(cue.Concrete(true), cue.Final()); err != nil {
		return nil, err
	}
	var rows []*row
	if err := v.Decode(&rows); err != nil {
		return nil, err
	}
	for _, r := range rows {
		gvk := kschema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
		o, err := goTypes.New(gvk)
		if err != nil {
			return nil, err
		}
		if gvk.Version = r.DescribedBy; gvk.Version != "" && !goTypes.Recognizes(gvk) {
			return nil, fmt.Errorf("%s: describedBy: there is no %s", r.Kind, gvk)
		}
		r.Type = reflect.TypeOf(o).Elem()
		if r.StoredAs == nil && len(r.Columns) == 0 {
			return nil, fmt.Errorf("%s: give it columns", r.Kind)
		}
		if err := checkPaths(r); err != nil {
			return nil, fmt.Errorf("%s: %w", r.Kind, err)
		}
	}
	return rows, nil
}

// checkPaths looks up every path of a row in its Go type.
func checkPaths(r *row) error {
	paths := append([]string(nil), r.Immutable...)
	for _, c := range r.Columns {
		if (c.Path == "") == (c.Func == "") {
			return fmt.Errorf("column %s: give it a path or a func", c.Name)
		}
		for _, p := range []string{c.Path, c.Doc} {
			if p != "" {
				paths = append(paths, p)
			}
		}
	}
	for _, p := range paths {
		if _, _, err := fieldAt(r.Type, p); err != nil {
			return err
		}
	}
	return nil
}

// fieldAt follows a path of JSON names from a struct type and returns the
// struct that holds the last field, with the field.
func fieldAt(t reflect.Type, path string) (reflect.Type, field, error) {
	var f field
	holder := t
	for _, name := range strings.Split(path, ".") {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		holder = t
		found := false
		for _, c := range fieldsOf(t) {
			if c.Name == name {
				f, t, found = c, c.Type, true
			}
		}
		if !found {
			return nil, field{}, fmt.Errorf("path %s: %s has no field %q", path, holder, name)
		}
	}
	return holder, f, nil
}

// writeTable writes the table in Go.
func writeTable(rows []*row, docs *docs) ([]byte, error) {
	g := newGoFile("schema")
	meta := g.importName("k8s.io/apimachinery/pkg/apis/meta/v1")
	g.printf("// Resources is the resource table, in the order in which discovery shows it.\n")
	g.printf("var Resources = linked([]*Resource{\n")
	for _, r := range rows {
		pkg := g.importName(r.Type.PkgPath())
		g.printf("{\nGroup: %q, Version: %q, Kind: %q, ListKind: %q,\n", r.Group, r.Version, r.Kind, r.Kind+"List")
		g.printf("Plural: %q, Singular: %q,\n", r.Plural, strings.ToLower(r.Kind))
		g.strings("ShortNames", r.ShortNames)
		g.strings("Categories", r.Categories)
		g.flag("Namespaced", r.Namespaced)
		g.flag("Status", r.Status)
		g.flag("Scale", r.Scale)
		g.strings("Subresources", r.Subresources)
		g.printf("StoragePrefix: %q,\n", r.StoragePrefix)
		if len(r.Columns) > 0 {
			g.printf("Columns: []Column{\n")
			for _, c := range r.Columns {
				writeColumn(g, c, describe(r, c, docs))
			}
			g.printf("},\n")
		}
		g.strings("Immutable", r.Immutable)
		g.strings("SelectableFields", r.SelectableFields)
		if len(r.FieldLabels) > 0 {
			g.printf("FieldLabels: map[string]string{\n")
			for _, k := range slices.Sorted(maps.Keys(r.FieldLabels)) {
				g.printf("%q: %q,\n", k, r.FieldLabels[k])
			}
			g.printf("},\n")
		}
		if r.Deprecated != "" {
			g.printf("Deprecated: %q,\n", r.Deprecated)
		}
		for _, list := range []bool{false, true} {
			name, kind, result := "New", r.Kind, "Object"
			if list {
				name, kind, result = "NewList", r.Kind+"List", meta+".ListInterface"
			}
			g.printf("%s: func() %s {\nreturn &%s.%s{TypeMeta: %s.TypeMeta{Kind: %q, APIVersion: %q}}\n},\n", name, result, pkg, kind, meta, kind, r.APIVersion())
		}
		g.printf("},\n")
	}
	g.printf("})\n\n")
	kinds := g.importName("k8s.io/apimachinery/pkg/runtime/schema")
	g.printf("// storedAs are the versions that are kept as another one.\n")
	g.printf("var storedAs = map[%s.GroupVersionKind]%s.GroupVersion{\n", kinds, kinds)
	for _, r := range rows {
		if s := r.StoredAs; s != nil {
			g.printf("{Group: %q, Version: %q, Kind: %q}: {Group: %q, Version: %q},\n", r.Group, r.Version, r.Kind, s.Group, s.Version)
		}
	}
	g.printf("}\n")
	return g.bytes()
}

func writeColumn(g *goFile, c column, description string) {
	g.printf("{Name: %q, Type: %q", c.Name, c.Type)
	for _, s := range []struct{ name, value string }{
		{"Cell", c.Cell}, {"Format", c.Format}, {"Path", c.Path}, {"Func", c.Func}, {"Absent", c.Absent}, {"Description", description},
	} {
		if s.value != "" {
			g.printf(", %s: %q", s.name, s.value)
		}
	}
	if c.Wide {
		g.printf(", Priority: 1")
	}
	g.printf("},\n")
}

// describe returns the description of a column: its own, or that of a field, in
// the words and the lines of upstream's table of descriptions where it has one.
func describe(r *row, c column, docs *docs) string {
	if c.Description != "" {
		return c.Description
	}
	path := c.Doc
	if path == "" {
		path = c.Path
	}
	_, f, err := fieldAt(r.described(), path)
	if err != nil {
		return "" // checkPaths has seen it
	}
	if d, ok := reflect.Zero(f.Holder).Interface().(interface{ SwaggerDoc() map[string]string }); ok && d.SwaggerDoc()[f.Name] != "" {
		return d.SwaggerDoc()[f.Name]
	}
	return docs.full(f)
}
