package merge

import (
	"testing"

	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/writ-os/writ/schema"
)

// TestTypes: every kind of the table has types, and those of upstream are
// upstream's own, not told by the values.
func TestTypes(t *testing.T) {
	for _, r := range schema.Resources {
		o := r.New()
		o.GetObjectKind().SetGroupVersionKind(r.GVK())
		v, err := Types(r).ObjectToTyped(o, typed.AllowDuplicates)
		if err != nil {
			t.Errorf("%s: %v", r, err)
			continue
		}
		name := v.TypeRef().NamedType
		if deduced := name == nil || *name == *typed.DeducedParseableType.TypeRef.NamedType; deduced == r.HasProtobuf() {
			t.Errorf("%s: types deduced: %v", r, deduced)
		}
	}
}
