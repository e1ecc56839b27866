package resource

import (
	"fmt"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

func sliceSpec(t *testing.T, text string) *resourcev1.ResourceSliceSpec {
	t.Helper()
	s := &resourcev1.ResourceSliceSpec{}
	if err := yaml.UnmarshalStrict([]byte(text), s); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s
}

// TestDeviceSliceErrors: the texts and their order are upstream's.
func TestDeviceSliceErrors(t *testing.T) {
	const pool = "pool: {name: p, generation: 1, resourceSliceCount: 1}"
	const head = "driver: d.example.com, " + pool + ", nodeName: n"
	const own = "driver: d.example.com, " + pool + ", perDeviceNodeSelection: true"
	const where = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
	const each = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
	const label = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
	for _, tt := range []struct {
		name, spec string
		want       []string
	}{
		{"good", head + `, devices: [{name: a, attributes: {model: {string: x}, d.example.com/v: {version: 1.2.3-a.1+b}}, capacity: {mem: {value: 1Gi}}, taints: [{key: k, effect: NoSchedule}],
			consumesCounters: [{counterSet: s, counters: {c: {value: 1}}}], bindingConditions: [a], bindingFailureConditions: [b]}]`, nil},
		{"counters", head + `, sharedCounters: [{name: s, counters: {c: {value: 1}}}]`, nil},
		{"nothing", ``, []string{"spec.driver: Required value", "spec.pool.name: Required value", "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero", "spec: Required value: " + where}},
		{"places", head + `, allNodes: false, nodeSelector: {nodeSelectorTerms: []}`, []string{
			"spec.nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term",
			"spec.nodeSelector.nodeSelectorTerms: Invalid value: []: must have exactly one node selector term",
			"spec.allNodes: Invalid value: false: must be either unset or set to true",
			"spec: Invalid value: \"{`nodeName`, `nodeSelector`}\": " + where + ", but multiple fields are set"}},
		{"selector", `driver: d.example.com, ` + pool + `, nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: k, operator: In}]}]}`, []string{
			"spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"}},
		{"both", head + `, devices: [], sharedCounters: []`, []string{"spec: Invalid value: \"\": only one of `sharedCounters` or `devices` is allowed"}},
		{"names", head + `, devices: [{name: A}, {name: a}, {name: a}]`, []string{
			`spec.devices[0].name: Invalid value: "A": ` + label, `spec.devices[2]: Duplicate value: "a"`}},
		{"attributes", head + `, devices: [{name: a, attributes: {a: {}, b: {int: 1, bool: true}, c: {version: "1.02"}, 1x: {int: 1}, /x: {int: 1}}}]`, []string{
			`spec.devices[0].attributes: Invalid value: "": the domain must not be empty`,
			`spec.devices[0].attributes: Invalid value: "1x": a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')`,
			`spec.devices[0].attributes[a]: Invalid value: "": exactly one value must be specified`,
			`spec.devices[0].attributes[b]: Invalid value: {"int":1,"bool":true}: exactly one value must be specified`,
			`spec.devices[0].attributes[c].version: Invalid value: "1.02": must be a string compatible with semver.org spec 2.0.0`}},
		{"taints", head + `, devices: [{name: a, taints: [{key: "", effect: Odd}, {key: k, value: "a b"}]}]`, []string{
			`spec.devices[0].taints[0].key: Invalid value: "": name part must be non-empty`,
			`spec.devices[0].taints[0].key: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
			`spec.devices[0].taints[0].effect: Unsupported value: "Odd": supported values: "NoExecute", "NoSchedule", "None"`,
			`spec.devices[0].taints[1].value: Invalid value: "a b": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`,
			`spec.devices[0].taints[1].effect: Required value`}},
		{"consumption", head + `, devices: [{name: a, consumesCounters: [{counterSet: s, counters: {C: {value: 1}}}, {counterSet: s}]}, {name: b, consumesCounters: [{counters: {c: {value: 1}}}]}]`, []string{
			`spec.devices[0].consumesCounters[0].counters: Invalid value: "C": ` + label,
			`spec.devices[0].consumesCounters[1].counters: Required value`,
			`spec.devices[0].consumesCounters[1]: Duplicate value: "s"`,
			`spec.devices[1].consumesCounters[0].counterSet: Required value`}},
		{"sets", head + `, sharedCounters: [{}, {name: s, counters: {c: {value: 1}}}, {name: s, counters: {c: {value: 1}}}]`, []string{
			`spec.sharedCounters[0].name: Required value`, `spec.sharedCounters[0].counters: Required value`, `spec.sharedCounters[2]: Duplicate value: "s"`}},
		{"own places", own + `, devices: [{name: a}, {name: b, nodeName: n, allNodes: true}, {name: c, nodeName: "", allNodes: false}]`, []string{
			"spec.devices[0]: Required value: " + each, "spec.devices[1]: Invalid value: \"{`nodeName`, `allNodes`}\": " + each,
			`spec.devices[2].nodeName: Invalid value: "": must not be empty`, "spec.devices[2].allNodes: Invalid value: false: must be either unset or set to true",
			"spec.devices[2]: Required value: " + each}},
		{"no own places", head + `, devices: [{name: a, allNodes: true}]`, []string{
			"spec.devices[0]: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec"}},
		{"conditions", head + `, devices: [{name: a, bindingConditions: [x, x]}, {name: b, bindingFailureConditions: [y]}, {name: c, bindingConditions: [z], bindingFailureConditions: [z]}]`, []string{
			`spec.devices[0].bindingConditions[1]: Duplicate value: "x"`,
			`spec.devices[0].bindingFailureConditions: Invalid value: null: bindingFailureConditions are required to use bindingConditions`,
			`spec.devices[1].bindingConditions: Invalid value: null: bindingConditions are required to use bindingFailureConditions`,
			`spec.devices[2].bindingFailureConditions[0]: Invalid value: "z": bindingFailureConditions must not overlap with bindingConditions`}},
	} {
		wantErrors(t, tt.name, deviceSliceErrors(sliceSpec(t, "{"+tt.spec+"}"), nil), tt.want)
	}
	for name, most := range map[string]int{"": 128, ", taints: [{key: k, effect: None}]": 64} {
		var devices []string
		for i := range most + 1 {
			devices = append(devices, fmt.Sprintf("{name: d%d%s}", i, name))
		}
		wantErrors(t, "many", deviceSliceErrors(sliceSpec(t, "{"+head+", devices: ["+strings.Join(devices, ", ")+"]}"), nil),
			[]string{fmt.Sprintf("spec.devices: Too many: %d: must have at most %d items", most+1, most)})
	}
}

// TestDeviceSliceUpdate: what cannot change says so first; taints that were
// there before are not looked at again.
func TestDeviceSliceUpdate(t *testing.T) {
	const old = `{driver: d.example.com, pool: {name: p, generation: 1, resourceSliceCount: 1}, nodeName: n, devices: [{name: a, taints: [{key: k, effect: Odd}], attributes: {l: {ints: [1]}}}]}`
	was := sliceSpec(t, old)
	is := sliceSpec(t, strings.NewReplacer("d.example.com", "e.example.com", "name: p", "name: q", "nodeName: n", "allNodes: true").Replace(old))
	wantErrors(t, "update", deviceSliceErrors(is, was), []string{
		`spec.pool.name: Invalid value: "q": field is immutable`, `spec.driver: Invalid value: "e.example.com": field is immutable`, `spec.nodeName: Invalid value: null: field is immutable`})
	is = sliceSpec(t, strings.Replace(old, "key: k", "key: l", 1))
	wantErrors(t, "another taint", deviceSliceErrors(is, was), []string{`spec.devices[0].taints[0].effect: Unsupported value: "Odd": supported values: "NoExecute", "NoSchedule", "None"`})

	fresh := sliceSpec(t, old)
	dropOffFields(fresh, nil)
	if a := fresh.Devices[0].Attributes["l"]; hasLists(&a) {
		t.Error("a list is kept that no object had")
	}
	dropOffFields(is, was)
	if a := is.Devices[0].Attributes["l"]; !hasLists(&a) {
		t.Error("a list is lost that the object had")
	}
}

// TestDeviceCapacityErrors: how much may be asked for.
func TestDeviceCapacityErrors(t *testing.T) {
	for _, tt := range []struct {
		policy string
		want   []string
	}{
		{`{default: 1Gi, validValues: [1Gi, 2Gi]}`, nil},
		{`{default: 2Gi, validRange: {min: 1Gi, max: 4Gi, step: 1Gi}}`, nil},
		{`{default: 1}`, nil},
		{`{validValues: [1Gi], validRange: {min: 1Gi}}`, []string{`c.requestPolicy: Forbidden: exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time`}},
		{`{validValues: [1Gi]}`, []string{"c.requestPolicy.default: Required value: required when validValues is defined"}},
		{`{validRange: {min: 1Gi}}`, []string{"c.requestPolicy.default: Required value: required when validRange is defined"}},
		{`{default: 3Gi, validValues: [2Gi, 1Gi, 8Gi, 1Gi]}`, []string{
			`c.requestPolicy.validValues[1]: Invalid value: "1Gi": values must be sorted in ascending order`,
			`c.requestPolicy.validValues[3]: Invalid value: "1Gi": values must be sorted in ascending order`,
			`c.requestPolicy.validValues[2]: Invalid value: "8Gi": option is larger than capacity value: 4Gi`,
			`c.requestPolicy.validValues[3]: Duplicate value: "1073741824"`,
			`c.requestPolicy.validValues: Invalid value: "3Gi": default value is not valid according to the requestPolicy`}},
		{`{default: 1, validRange: {}}`, []string{"c.requestPolicy.validRange.min: Required value: required when validRange is defined"}},
		{`{default: 10, validRange: {min: 8Gi, max: 6Gi, step: 3}}`, []string{
			`c.requestPolicy.validRange.min: Invalid value: "8Gi": min is larger than capacity value: 4Gi`,
			`c.requestPolicy.validRange.min: Invalid value: "10": default is less than min: 8Gi`,
			`c.requestPolicy.validRange.max: Invalid value: "8Gi": min is larger than max: 6Gi`,
			`c.requestPolicy.validRange.max: Invalid value: "6Gi": max is larger than capacity value: 4Gi`,
			`c.requestPolicy.validRange.step: Invalid value: "3": one step 8589934595 is larger than capacity value: 4Gi`,
			`c.requestPolicy.validRange.step: Invalid value: "10": value is not a multiple of a given step (3) from (8Gi)`,
			`c.requestPolicy.validRange.step: Invalid value: "6Gi": value is not a multiple of a given step (3) from (8Gi)`}},
		{`{default: 1, validRange: {min: 1, step: 0}}`, []string{`c.requestPolicy.validRange.step: Invalid value: "1": value is not a multiple of a given step (0) from (1)`}},
	} {
		c := &resourcev1.DeviceCapacity{Value: resource.MustParse("4Gi")}
		if err := yaml.UnmarshalStrict([]byte(tt.policy), &c.RequestPolicy); err != nil {
			t.Fatal(err)
		}
		wantErrors(t, tt.policy, deviceCapacityErrors(c, true, field.NewPath("c")), tt.want)
		wantErrors(t, tt.policy+" alone", deviceCapacityErrors(c, false, field.NewPath("c")), []string{"c.requestPolicy: Forbidden: allowMultipleAllocations must be true"})
	}
}

// TestDeviceExpressions: expressions are compiled, and may not cost too much.
func TestDeviceExpressions(t *testing.T) {
	dear := "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, device.attributes.all(d, a == b && c == d))))"
	for expression, want := range map[string]string{
		`device.driver == "d.example.com"`:                                                     "",
		`device.attributes["d.example.com"].model == "x" && device.allowMultipleAllocations`:   "",
		`device.capacity["d.example.com"].mem.compareTo(quantity("1Gi")) >= 0`:                 "",
		`cel.bind(a, device.attributes["d.example.com"], a.one && a.two.isGreaterThan(a.two))`: "",
		`device.nothing`: "compilation failed: ERROR: <input>:1:7: undefined field 'nothing'",
		`1`:              "must evaluate to bool or the unknown type, not int",
		`(`:              "Syntax error",
		dear:             "too complex, exceeds cost limit",
	} {
		errs := deviceSelectorErrors([]resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}, false, field.NewPath("s"))
		if want == "" && len(errs) > 0 || want != "" && (len(errs) != 1 || !strings.Contains(errs[0].Error(), want) || !strings.HasPrefix(errs[0].Error(), "s[0].cel.expression: ")) {
			t.Errorf("%s: %v, want %q", expression, errs, want)
		}
	}
}

// TestDeviceClassUpdate: parameters that are too large may stay, not come.
func TestDeviceClassUpdate(t *testing.T) {
	class := func(size int, driver string) *resourcev1.DeviceClassSpec {
		c := resourcev1.DeviceClassConfiguration{}
		c.Opaque = &resourcev1.OpaqueDeviceConfiguration{Driver: driver}
		c.Opaque.Parameters.Raw = fmt.Appendf(nil, `{"a":%q}`, strings.Repeat("x", size))
		return &resourcev1.DeviceClassSpec{Config: []resourcev1.DeviceClassConfiguration{c}}
	}
	const long = resourcev1.OpaqueParametersMaxLength
	tooLong := []string{"spec.config[0].opaque.parameters: Too long: may not be more than 10240 bytes"}
	wantErrors(t, "new", deviceClassErrors(class(long, "d"), nil), tooLong)
	wantErrors(t, "as before", deviceClassErrors(class(long, "d"), class(long, "d")), nil)
	wantErrors(t, "changed", deviceClassErrors(class(long, "e"), class(long, "d")), tooLong)
}
