package custom

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/writ-os/writ/schema"
)

func TestRows(t *testing.T) {
	rows, served := serve(t, load(t, "widgets"), nil)
	if len(rows.Served) != 2 || rows.Served[0].Version != "v1" {
		t.Fatalf("served %v, want v1 first", rows.Served)
	}
	r := served["v1"]
	if r.Storage != rows.Stored || !r.Status || !r.Scale || !r.Namespaced || r.ListKind != "WidgetList" || r.Singular != "widget" {
		t.Errorf("row %+v", r)
	}
	if diff := cmp.Diff([]string{"spec.color"}, r.SelectableFields); diff != "" {
		t.Error(diff)
	}
	if spec, status, selector := r.Custom.ScalePaths(); spec != ".spec.replicas" || status != ".status.replicas" || selector != ".status.selector" {
		t.Errorf("scale paths %s %s %s", spec, status, selector)
	}
	var columns []string
	for _, c := range r.Columns {
		columns = append(columns, c.Name+" "+c.Path)
	}
	want := []string{"Name metadata.name", "Replicas .spec.replicas", `Ready .status.conditions[?(@.type=="Ready")].status`, "Age .metadata.creationTimestamp"}
	if diff := cmp.Diff(want, columns); diff != "" {
		t.Error(diff)
	}
	if got := served["v1beta1"].Deprecated; got != "example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget" {
		t.Errorf("deprecation %q", got)
	}
	if got := served["v1beta1"].Columns[1]; got.Name != "Age" || got.Type != "date" {
		t.Errorf("default column %+v", got)
	}
	if o := r.New(); o.GetObjectKind().GroupVersionKind() != r.GVK() {
		t.Errorf("new object is a %v", o.GetObjectKind().GroupVersionKind())
	}
	_, served = serve(t, load(t, "clusters"), nil)
	if r := served["v1alpha1"]; r.Convert != nil || r.Namespaced || r.Status {
		t.Errorf("row %+v", r)
	}
}

func TestTypes(t *testing.T) {
	_, served := serve(t, load(t, "widgets"), nil)
	v := served["v1"].Custom
	typed, err := v.Types().ObjectToTyped(widget(t, `{metadata: {name: a}, spec: {color: red, tags: [x], parts: [{name: p, count: 1}], choice: {a: b}}}`))
	if err != nil {
		t.Fatal(err)
	}
	set, err := typed.ToFieldSet()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []fieldpath.Path{
		fieldpath.MakePathOrDie("spec", "tags", value.NewValueInterface("x")),
		fieldpath.MakePathOrDie("spec", "parts", fieldpath.KeyByFields("name", "p"), "count"),
		fieldpath.MakePathOrDie("spec", "choice"), // atomic
	} {
		if !set.Has(path) {
			t.Errorf("no %v in %v", path, set)
		}
	}
	if v.Types() != v.Types() {
		t.Error("types are made twice")
	}
}

func TestRelease(t *testing.T) {
	rows, served := serve(t, load(t, "widgets"), nil)
	v := served["v1"].Custom.(*Version)
	v.checks()
	v.Types()
	rows.Release(time.Now().Add(-time.Hour))
	if v.made.checks == nil {
		t.Error("dropped what was used a moment ago")
	}
	rows.Release(time.Now().Add(time.Second))
	if v.made.shape != nil || v.made.checks != nil || v.d.types != nil {
		t.Error("kept what nobody has used")
	}
	if errs := v.Validate(t.Context(), widget(t, `{spec: {color: red, replicas: 1}}`), nil); len(errs) > 0 {
		t.Error(errs)
	}
}

// TestInherit: a change of the status costs no second compilation, one of the
// spec does.
func TestInherit(t *testing.T) {
	def := load(t, "widgets")
	rows, served := serve(t, def, nil)
	_, was := served["v1"].Custom.(*Version).checks()
	changed := def.DeepCopy()
	changed.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionTrue}}
	for _, same := range []bool{true, false} {
		next, err := Resources(changed, rows, nil)
		if err != nil {
			t.Fatal(err)
		}
		v := next.Served[0].Custom.(*Version)
		if _, c := v.checks(); (c == was) != same || !v.Terminating() {
			t.Errorf("the same schema %v, compiled anew %v, terminating %v", same, c != was, v.Terminating())
		}
		changed = changed.DeepCopy()
		changed.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = "Another."
	}
}

// large is a definition such as operators bring: some hundred fields with
// descriptions, nested, with rules.
func large(fields int) *apiextensionsv1.CustomResourceDefinition {
	leaf := func(i int) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "string", Description: fmt.Sprintf("Field %d says %s.", i, strings.Repeat("what the controller shall do ", 4))}
	}
	spec := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{}}
	for i := 0; i < fields; i += 10 {
		group := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{}}
		for j := range 9 {
			group.Properties[fmt.Sprintf("field%d", i+j)] = leaf(i + j)
		}
		group.XValidations = apiextensionsv1.ValidationRules{{Rule: fmt.Sprintf("!has(self.field%d) || self.field%d != 'x'", i, i)}}
		spec.Properties[fmt.Sprintf("group%d", i)] = group
	}
	def := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "large.example.com", Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "larges", Kind: "Large"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec}}}}},
	}}
	def.Name = "larges.large.example.com"
	Defaults(def)
	return def
}

// TestMemory: a definition of 400 fields costs less than 0.5 MB at rest, the
// object itself included, and goes back to that when it has not been used for a
// while.
func TestMemory(t *testing.T) {
	const count = 100
	before := heap()
	all := make([]*Rows, count)
	for i := range all {
		rows, err := Resources(large(400), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		all[i] = rows
	}
	catalog := []*schema.Resource{}
	for _, r := range all {
		catalog = append(catalog, r.Served...)
	}
	c := schema.NewCatalog(catalog...)
	rest := (heap() - before) / count
	for _, r := range all[:10] {
		v := r.Served[0].Custom.(*Version)
		v.checks()
		v.Types()
	}
	used := (heap() - before - rest*count) / 10
	for _, r := range all {
		r.Release(time.Now().Add(time.Second))
	}
	released := (heap() - before) / count
	t.Logf("bytes a definition: at rest %d, more in use %d, released %d", rest, used, released)
	if rest > 512<<10 || released > 512<<10 {
		t.Errorf("%d bytes at rest and %d after use, want at most 0.5 MB", rest, released)
	}
	runtime.KeepAlive(all)
	runtime.KeepAlive(c)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func BenchmarkValidate(b *testing.B) {
	_, served := serve(b, load(b, "widgets"), nil)
	v := served["v1"].Custom.(*Version)
	o := widget(b, `{metadata: {name: a}, spec: {color: red, replicas: 1, tags: [a, b], parts: [{name: a}, {name: b}]}}`)
	b.ReportAllocs()
	for b.Loop() {
		v.Validate(b.Context(), o, nil)
	}
}

func BenchmarkSettle(b *testing.B) {
	_, served := serve(b, load(b, "widgets"), nil)
	v := served["v1"].Custom.(*Version)
	o := widget(b, `{metadata: {name: a}, spec: {color: red, replicas: 1, tags: [a, b], parts: [{name: a}, {name: b}]}}`)
	b.ReportAllocs()
	for b.Loop() {
		v.Prune(o.Object)
		v.Default(o.Object)
	}
}
