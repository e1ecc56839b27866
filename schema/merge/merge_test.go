package merge

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/merge/upstream"
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

// TestGenerated: what was generated is what upstream's packages say now.
func TestGenerated(t *testing.T) {
	for name, c := range map[string]struct {
		encoded []byte
		read    func() ([]smd.TypeDef, error)
	}{"builtin": {builtinTypes, upstream.Builtin}, "definitions": {definitionTypes, upstream.Definitions}} {
		got, err := decode(c.encoded)
		if err != nil {
			t.Fatal(name, err)
		}
		want, err := c.read()
		if err != nil {
			t.Fatal(name, err)
		}
		if diff := gocmp.Diff(want, got, cmpopts.IgnoreUnexported(smd.Map{})); diff != "" {
			t.Errorf("%s is old (run `make generate`; -upstream +generated):\n%s", name, diff)
		}
	}
}

func BenchmarkTypes(b *testing.B) {
	for b.Loop() {
		if _, err := decode(builtinTypes); err != nil {
			b.Fatal(err)
		}
	}
}
