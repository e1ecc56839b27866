package custom

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func TestValidateDefinition(t *testing.T) {
	raw, err := os.ReadFile("testdata/widgets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	good := string(raw)
	for _, c := range []struct {
		name     string
		from, to string
		want     []string
	}{
		{name: "good"},
		{name: "name", from: "name: widgets.example.com", to: "name: widgets.example.org", want: []string{
			`metadata.name: Invalid value: "widgets.example.org": must be spec.names.plural+"."+spec.group`}},
		{name: "scope", from: "scope: Namespaced", to: "scope: Galaxy", want: []string{
			`spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"`}},
		{name: "stored versions", from: "storage: true", to: "storage: false", want: []string{
			`must have exactly one version marked as storage version`,
			`status.storedVersions: Invalid value: null: must have at least one stored version`}},
		{name: "structural", from: "size: {type: string, maxLength: 10}", to: "size: {maxLength: 10}", want: []string{
			`spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[size].type: Required value: must not be empty for specified object fields`}},
		{name: "default", from: "default: green", to: "default: pink", want: []string{
			`spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[color].default: Unsupported value: "pink": supported values: "red", "green", "blue"`}},
		{name: "cel", from: "self.replicas <= 10 ||", to: "self.replica <= 10 ||", want: []string{
			`compilation failed: ERROR: <input>:1:5: undefined field 'replica'`}},
		{name: "cost", from: "self.replicas <= 10 ||", to: "self.tags.all(x, self.tags.all(y, x == y)) ||", want: []string{
			`estimated rule cost exceeds budget`}},
		{name: "selectable", from: "jsonPath: .spec.color\n", to: "jsonPath: .spec.parts\n", want: []string{
			`spec.versions[0].selectableFields[0].jsonPath: Invalid value: ".spec.parts": must point to a field of type string, boolean or integer`}},
		{name: "column", from: "jsonPath: .metadata.creationTimestamp", to: "jsonPath: metadata", want: []string{
			`spec.versions[0].additionalPrinterColumns[2].JSONPath: Invalid value: "metadata": must be a simple json path starting with .`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			def := parse(t, strings.Replace(good, c.from, c.to, 1))
			errs := texts(ValidateDefinition(context.Background(), def, nil))
			for i, want := range c.want {
				if i >= len(errs) || !strings.Contains(errs[i], want) {
					t.Fatalf("error %d of\n%s\nwant\n%s", i, strings.Join(errs, "\n"), want)
				}
			}
			if len(c.want) == 0 && len(errs) > 0 {
				t.Fatal(errs)
			}
		})
	}
}

func TestValidateDefinitionUpdate(t *testing.T) {
	old := load(t, "widgets")
	old.ResourceVersion = "1"
	old.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	def := old.DeepCopy()
	def.Spec.Scope, def.Spec.Names.Kind = apiextensionsv1.ClusterScoped, "Gadget"
	def.Spec.Versions = def.Spec.Versions[1:]
	def.Spec.Versions[0].Storage = true
	want := []string{
		`spec.scope: Invalid value: "Cluster": field is immutable`,
		`spec.names.kind: Invalid value: "Gadget": field is immutable`,
		`status.storedVersions: Invalid value: ["v1"]: must have the storage version v1beta1`,
		`status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v1 and removes v1 from status.storedVersions`,
	}
	if diff := cmp.Diff(want, texts(ValidateDefinition(context.Background(), def, old))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if errs := ValidateDefinitionStatus(def, old); len(errs) > 0 {
		t.Errorf("the status door looks at the spec: %v", errs)
	}
}

func TestDefaults(t *testing.T) {
	def := load(t, "widgets")
	n := def.Spec.Names
	if n.Singular != "widget" || n.ListKind != "WidgetList" || def.Spec.Conversion.Strategy != apiextensionsv1.NoneConverter {
		t.Errorf("names %+v, conversion %+v", n, def.Spec.Conversion)
	}
}

func TestWarnings(t *testing.T) {
	def := load(t, "widgets")
	if w := Warnings(def, nil); w != nil {
		t.Errorf("warnings %q for known formats", w)
	}
	next := def.DeepCopy()
	spec := next.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	spec.Properties["size"] = apiextensionsv1.JSONSchemaProps{Type: "string", Format: "feet"}
	if diff := cmp.Diff([]string{`unrecognized format "feet"`}, Warnings(next, def)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if w := Warnings(next, next); w != nil {
		t.Errorf("warnings %q said again", w)
	}
}

// FuzzRule: no CEL rule makes the validation of a definition panic.
func FuzzRule(f *testing.F) {
	for _, rule := range []string{"self.replicas > 1", "self.parts.all(p, p.name != '')", "has(self.x", "'\\xff'", "self.free.a == 1", "oldSelf == self", "[1,2].map(x, x/0)"} {
		f.Add(rule)
	}
	def := load(f, "widgets")
	f.Fuzz(func(t *testing.T, rule string) {
		d := def.DeepCopy()
		spec := d.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		spec.XValidations = apiextensionsv1.ValidationRules{{Rule: rule}}
		d.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = spec
		if len(ValidateDefinition(context.Background(), d, nil)) > 0 {
			return
		}
		_, served := serve(t, d, nil)
		v := served["v1"].Custom.(*Version)
		v.Validate(context.Background(), fuzzed(v, `{"spec":{"color":"red","parts":[{"name":"a"}]}}`), nil)
	})
}
