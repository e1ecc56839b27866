package custom

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/writ-os/writ/schema"
)

// FuzzDefinition: a schema is refused with reasons, or it is served, and then no
// object is too strange for it: pruning and defaulting end, a second time
// changes nothing, and validation answers.
func FuzzDefinition(f *testing.F) {
	for _, s := range []struct{ schema, object string }{
		{`{"type":"object","properties":{"a":{"type":"integer","default":3,"maximum":5},"b":{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"set"}}}`, `{"a":"x","b":["c","c"]}`},
		{`{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"r":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}}}`, `{"r":{"apiVersion":"v1","metadata":{"x":1}},"z":1}`},
		{`{"type":"array","items":{"type":"object","required":["k"],"properties":{"k":{"x-kubernetes-int-or-string":true}}},"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"]}`, `[{"k":1},{"k":"1"},{}]`},
		{`{"type":"object","additionalProperties":{"type":"string","nullable":true,"pattern":"^(a+)+$","maxLength":9}}`, `{"a":null,"b":"aaaaaaaaaaaaaaaaaa!"}`},
		{`{"type":"object","properties":{"a":{"type":"string","format":"date-time"}},"x-kubernetes-validations":[{"rule":"self.a == oldSelf.a","messageExpression":"string(self.a)","reason":"FieldValueForbidden","fieldPath":".a"}],"oneOf":[{"required":["a"]}]}`, `{"a":"2020"}`},
		{`{"type":"number","multipleOf":0.1,"minimum":-1e308,"exclusiveMinimum":true,"enum":[0.3,1]}`, `1e309`},
	} {
		f.Add(s.schema, s.object)
	}
	base := load(f, "widgets")
	f.Fuzz(func(t *testing.T, text, object string) {
		var s apiextensionsv1.JSONSchemaProps
		if json.Unmarshal([]byte(text), &s) != nil {
			return
		}
		def := base.DeepCopy()
		def.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": s}}
		def.Spec.Versions[0].SelectableFields, def.Spec.Versions[0].Subresources = nil, nil
		Defaults(def)
		if len(ValidateDefinition(context.Background(), def, nil)) > 0 {
			return
		}
		rows, err := Resources(def, nil, nil)
		if err != nil {
			t.Fatalf("valid, and not served: %v", err)
		}
		for _, r := range rows.Served {
			if v := r.Custom.(*Version); r.Version == def.Spec.Versions[0].Name {
				fill(t, v, object)
			}
		}
	})
}

func fill(t *testing.T, v *Version, object string) {
	var value any
	if json.Unmarshal([]byte(object), &value) != nil {
		return
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"name": "a"}, "spec": value})
	if err != nil {
		t.Fatal(err)
	}
	o := fuzzed(v, string(data))
	again := runtime.DeepCopyJSON(o.Object)
	if settle(v, again); !reflect.DeepEqual(again, o.Object) {
		t.Errorf("not settled: %v, and then %v", o.Object, again)
	}
	_ = v.Validate(context.Background(), o, nil)
	_ = v.Validate(context.Background(), o, o.DeepCopy())
}

// FuzzConversion: whatever a conversion webhook answers, the objects are those
// that were asked for, with their metadata, or the conversion fails.
func FuzzConversion(f *testing.F) {
	f.Add(`{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1","response":{"uid":"UID","result":{"status":"Success"},"convertedObjects":[{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","namespace":"d","uid":"u","labels":{"a":"c"}}}]}}`)
	f.Add(`{"response":{"result":{"status":"Success"},"convertedObjects":[{"apiVersion":"example.com/v1","kind":"Widget","items":[{}],"metadata":{"name":"a","namespace":"d","uid":"u","labels":{"a":7}}},null]}}`)
	f.Add(`{"response":{"result":{"status":"Failure","message":"no"}}}`)
	f.Add(`[]`)
	in := `{apiVersion: example.com/v1beta1, kind: Widget, metadata: {name: a, namespace: d, uid: u, labels: {a: b}, finalizers: [x/y]}, spec: {color: red}}`
	answer := ""
	_, served := serve(f, webhooked(f, "v1beta1"), func(context.Context, []byte) ([]byte, error) { return []byte(answer), nil })
	f.Fuzz(func(t *testing.T, text string) {
		answer = text
		sent := widget(t, in)
		out, err := served["v1"].Convert(context.Background(), []schema.Object{sent})
		if err != nil {
			return
		}
		if len(out) != 1 || out[0].GetName() != "a" || out[0].GetUID() != "u" || len(out[0].GetFinalizers()) != 1 {
			t.Errorf("converted to %v", out)
		}
		if kind := out[0].GetObjectKind().GroupVersionKind(); kind.Version != "v1" || kind.Kind != "Widget" {
			t.Errorf("converted to a %v", kind)
		}
	})
}
