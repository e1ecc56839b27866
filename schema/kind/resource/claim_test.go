package resource

import (
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// TestDeviceClaimErrors: the texts and their order are upstream's.
func TestDeviceClaimErrors(t *testing.T) {
	const one = "exactly one of `exactly` or `firstAvailable` is required"
	const ref = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
	const exact = "deviceClassName: gpu, allocationMode: ExactCount, count: 1"
	for _, tt := range []struct {
		name, claim string
		want        []string
	}{
		{"nothing", `{}`, nil},
		{"good", `{requests: [{name: a, exactly: {` + exact + `}}, {name: b, firstAvailable: [{name: x, ` + exact + `}, {name: "y", deviceClassName: gpu, allocationMode: All}]}],
			constraints: [{requests: [a, b, b/x], matchAttribute: example.com/numa}], config: [{requests: [b/y], opaque: {driver: d.example.com, parameters: {a: 1}}}]}`, nil},
		{"neither", `{requests: [{name: a}]}`, []string{"d.requests[0]: Required value: " + one}},
		{"both", `{requests: [{name: a, exactly: {` + exact + `}, firstAvailable: [{name: x, ` + exact + `}]}]}`,
			[]string{"d.requests[0]: Invalid value: null: " + one + ", but multiple fields are set"}},
		{"class, selector, count", `{requests: [{name: a, exactly: {allocationMode: ExactCount, selectors: [{}]}}]}`, []string{
			"d.requests[0].exactly.deviceClassName: Required value", "d.requests[0].exactly.selectors[0].cel: Required value",
			"d.requests[0].exactly.count: Invalid value: 0: must be greater than zero"}},
		{"modes", `{requests: [{name: a, exactly: {deviceClassName: g, allocationMode: All, count: 2}}, {name: b, exactly: {deviceClassName: g, allocationMode: Some}}]}`, []string{
			"d.requests[0].exactly.count: Invalid value: 2: must not be specified when allocationMode is 'All'",
			`d.requests[1].exactly.allocationMode: Unsupported value: "Some": supported values: "All", "ExactCount"`}},
		{"twice", `{requests: [{name: a, exactly: {` + exact + `}}, {name: a, exactly: {` + exact + `}}]}`, []string{`d.requests[1]: Duplicate value: "a"`}},
		{"tolerations", `{requests: [{name: a, exactly: {` + exact + `, tolerations: [{operator: Exists, value: v}, {key: k}, {operator: Equal, effect: Odd}]}}]}`, []string{
			"d.requests[0].exactly.tolerations[0].value: Invalid value: \"v\": must be empty for operator `Exists`",
			"d.requests[0].exactly.tolerations[1].operator: Required value",
			`d.requests[0].exactly.tolerations[2].effect: Unsupported value: "Odd": supported values: "NoExecute", "NoSchedule", "None"`}},
		{"references", `{requests: [{name: a, exactly: {` + exact + `}}], constraints: [{requests: [b, a/x, a/b/c], matchAttribute: example.com/x}]}`, []string{
			`d.constraints[0].requests[0]: Invalid value: "b": ` + ref, `d.constraints[0].requests[1]: Invalid value: "a/x": ` + ref, `d.constraints[0].requests[2]: Invalid value: "a/b/c": ` + ref}},
		{"attributes", `{constraints: [{}, {matchAttribute: short}, {matchAttribute: /x}, {matchAttribute: example.com/}]}`, []string{
			`d.constraints[0]: Required value: exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set`,
			`d.constraints[1].matchAttribute: Invalid value: "short": a fully qualified name must be a domain and a name separated by a slash`,
			`d.constraints[2].matchAttribute: Invalid value: "": the domain must not be empty`,
			`d.constraints[3].matchAttribute: Invalid value: "": the name must not be empty`}},
		{"config", `{config: [{}, {opaque: {parameters: [1]}}, {opaque: {driver: d.example.com}}]}`, []string{
			"d.config[0].opaque: Required value", "d.config[1].opaque.driver: Required value",
			`d.config[1].opaque.parameters: Invalid value: "<value omitted>": must be a valid JSON object`,
			"d.config[2].opaque.parameters: Required value"}},
	} {
		var c resourcev1.DeviceClaim
		if err := yaml.UnmarshalStrict([]byte(tt.claim), &c); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		wantErrors(t, tt.name, deviceClaimErrors(&c, field.NewPath("d")), tt.want)
	}
	many := resourcev1.DeviceClaim{Requests: make([]resourcev1.DeviceRequest, resourcev1.DeviceRequestsMaxSize+1)}
	wantErrors(t, "many", deviceClaimErrors(&many, field.NewPath("d")), []string{"d.requests: Too many: 33: must have at most 32 items"})
}

func TestDeviceClassErrors(t *testing.T) {
	for name, want := range map[string][]string{
		"example.com/gpu": nil, "gpu": {"gpu"}, "kubernetes.io/x": {"x"}, "requests.example.com/x": {"x"}, "a b/c": {"x"},
	} {
		errs := deviceClassErrors(&resourcev1.DeviceClassSpec{ExtendedResourceName: &name}, nil)
		if len(errs) != len(want) || len(errs) > 0 && errs[0].Detail != "must be a valid extended resource name" {
			t.Errorf("%s: %v", name, errs)
		}
	}
	long := strings.Repeat("x", resourcev1.CELSelectorExpressionMaxLength+1)
	wantErrors(t, "class", deviceClassErrors(&resourcev1.DeviceClassSpec{
		Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: long}}},
		Config:    []resourcev1.DeviceClassConfiguration{{}},
	}, nil), []string{"spec.selectors[0].cel.expression: Too long: may not be more than 10240 bytes", "spec.config[0].opaque: Required value"})
}

func wantErrors(t *testing.T, name string, errs field.ErrorList, want []string) {
	t.Helper()
	var got []string
	for _, e := range errs {
		got = append(got, e.Error())
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
