package custom

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func texts(errs field.ErrorList) []string {
	var out []string
	for _, e := range errs {
		out = append(out, e.Error())
	}
	return out
}

const notChecked = `<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation`

func TestValidate(t *testing.T) {
	_, served := serve(t, load(t, "widgets"), nil)
	v := served["v1"].Custom.(*Version)
	for _, c := range []struct {
		name, in, old string
		status        bool
		want          []string
	}{
		{name: "valid", in: `{spec: {color: red, replicas: 11, port: http, tags: [a, b]}}`},
		{name: "required", in: `{}`, want: []string{"spec: Required value", notChecked}},
		{name: "type and enum", in: `{spec: {color: pink, replicas: x}}`, want: []string{
			`spec.color: Unsupported value: "pink": supported values: "red", "green", "blue"`,
			`spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string"`,
			`.spec.replicas: Invalid value: 0: .spec.replicas accessor error: x is of the type string, expected int64`, notChecked}},
		{name: "range", in: `{spec: {color: red, replicas: -1}}`, want: []string{
			`spec.replicas: Invalid value: -1: spec.replicas in body should be greater than or equal to 0`,
			`.spec.replicas: Invalid value: -1: should be a non-negative integer`}},
		{name: "length", in: `{spec: {color: red, size: "12345678901"}}`, want: []string{
			`spec.size: Too long: may not be more than 10 bytes`, notChecked}},
		{name: "set", in: `{spec: {color: red, tags: [a, a]}}`, want: []string{`spec.tags[1]: Duplicate value: "a"`}},
		{name: "map", in: `{spec: {color: red, parts: [{name: a}, {name: a}]}}`, want: []string{
			`spec.parts[1]: Duplicate value: {"name":"a"}`}},
		{name: "rule", in: `{spec: {color: blue, replicas: 11}}`, want: []string{
			`spec: Invalid value: only red widgets may have more than ten replicas`}},
		{name: "kind", in: `{apiVersion: example.com/v2, kind: Gadget, spec: {color: red, replicas: 1}}`, want: []string{
			`kind: Invalid value: "Gadget": must be Widget`, `apiVersion: Invalid value: "example.com/v2": must be example.com/v1`}},
		{name: "embedded", in: `{spec: {color: red, replicas: 1, strict: {apiVersion: v1, kind: Pod, metadata: {name: a/b}}}}`, want: []string{
			`spec.strict.metadata.name: Invalid value: "a/b": may not contain '/'`}},

		{name: "transition rule", in: `{spec: {color: red, replicas: 1, size: b}}`, old: `{spec: {color: red, replicas: 1, size: a}}`, want: []string{
			`spec.size: Forbidden: size was a`}},
		{name: "ratcheting: what was wrong may stay", in: `{spec: {color: pink, replicas: 2}}`, old: `{spec: {color: pink, replicas: 1}}`},
		{name: "ratcheting: the rule of what did not change", in: `{metadata: {labels: {a: b}}, spec: {color: blue, replicas: 11}}`, old: `{spec: {color: blue, replicas: 11}}`},
		{name: "ratcheting: new wrongs are refused", in: `{spec: {color: mauve, replicas: 1}}`, old: `{spec: {color: pink, replicas: 1}}`, want: []string{
			`spec.color: Unsupported value: "mauve": supported values: "red", "green", "blue"`, notChecked}},
		{name: "ratcheting: sets", in: `{spec: {color: red, replicas: 1, tags: [b, b]}}`, old: `{spec: {color: red, replicas: 1, tags: [a, a]}}`},

		{name: "status: the spec does not count", status: true,
			in: `{spec: {color: pink, replicas: 1}, status: {replicas: 2}}`, old: `{spec: {color: pink, replicas: 1}}`},
		{name: "status", status: true,
			in: `{spec: {color: red, replicas: 1}, status: {replicas: many, selector: 7}}`, old: `{spec: {color: red, replicas: 1}}`, want: []string{
				`status.replicas: Invalid value: "string": replicas in body must be of type integer: "string"`,
				`status.selector: Invalid value: "integer": selector in body must be of type string: "integer"`,
				`.status.replicas: Invalid value: 0: .status.replicas accessor error: many is of the type string, expected int64`,
				`.status.selector: Invalid value: "": .status.selector accessor error: 7 is of the type int64, expected string`, notChecked}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := widget(t, c.in)
			var errs field.ErrorList
			switch {
			case c.status:
				errs = v.ValidateStatus(context.Background(), o, widget(t, c.old))
			case c.old != "":
				errs = v.Validate(context.Background(), o, widget(t, c.old))
			default:
				errs = v.Validate(context.Background(), o, nil)
			}
			if diff := cmp.Diff(c.want, texts(errs)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzValidate: nothing panics, and an object that is valid stays valid when it
// is written again unchanged.
func FuzzValidate(f *testing.F) {
	f.Add(`{"spec":{"color":"red","replicas":11}}`, `{"spec":{"color":"blue"}}`)
	f.Add(`{"spec":{"color":["red"],"parts":[{"name":1},{"name":null}]}}`, `{"spec":7,"status":[]}`)
	_, served := serve(f, load(f, "widgets"), nil)
	v := served["v1"].Custom.(*Version)
	f.Fuzz(func(t *testing.T, text, before string) {
		o, old := fuzzed(v, text), fuzzed(v, before)
		errs := v.Validate(context.Background(), o, nil)
		_ = v.Validate(context.Background(), o, old)
		_ = v.ValidateStatus(context.Background(), o, old)
		if len(errs) == 0 {
			if errs := v.Validate(context.Background(), o, o.DeepCopy()); len(errs) > 0 {
				t.Errorf("valid when new, not when written again: %v", errs)
			}
		}
	})
}
