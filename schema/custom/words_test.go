package custom

import (
	"slices"
	"strings"
	"testing"
)

// TestFields: beside an unknown field are those that could have been meant.
func TestFields(t *testing.T) {
	_, served := serve(t, load(t, "widgets"), nil)
	v := served["v1"].Custom.(*Version)
	for path, want := range map[string]string{
		"sepc":                       "apiVersion kind metadata spec",
		"spec.colour":                "color parts strict",
		"spec.parts[0].nme":          "name",
		"metadata.lables":            "labels annotations",
		"metadata.labels.x":          "",
		"spec.strict.knd":            "apiVersion kind metadata spec",
		"spec.strict.spec.b":         "a",
		"spec.strict.metadata.extra": "labels",
		"spec.color.x":               "",
		"spec.none.x":                "",
		"spec.parts[x].nme":          "",
	} {
		got := v.Fields(path)
		for name := range strings.FieldsSeq(want) {
			if !slices.Contains(got, name) {
				t.Errorf("%s: %q is not among %q", path, name, got)
			}
		}
		if want == "" && len(got) > 0 || !slices.IsSorted(got) {
			t.Errorf("%s: %q", path, got)
		}
	}
}
