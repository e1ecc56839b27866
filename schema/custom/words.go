package custom

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fields are the names of the fields that there are beside the one at a path of
// those that Prune returns, sorted; none where the schema names none, or the
// path is through a key that reads as two.
func (v *Version) Fields(path string) []string {
	steps := strings.FieldsFunc(path[:max(strings.LastIndexByte(path, '.'), 0)], func(r rune) bool { return r == '.' || r == '[' })
	s := v.shape().s
	if s == nil {
		return nil
	}
	embedded := true // the object itself is one, as those in it can be
	for i, step := range steps {
		if embedded && step == "metadata" {
			if i+1 < len(steps) {
				return nil
			}
			return metadataFields()
		}
		if s = under(s, step); s == nil {
			return nil
		}
		embedded = s.XEmbeddedResource
	}
	out := slices.Collect(maps.Keys(s.Properties))
	if embedded {
		out = append(out, "apiVersion", "kind", "metadata")
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// under is the schema of a field, of a value of a map, or of an item ("0]").
func under(s *structural.Structural, step string) *structural.Structural {
	if index, ok := strings.CutSuffix(step, "]"); ok {
		if _, err := strconv.Atoi(index); err != nil {
			return nil
		}
		return s.Items
	}
	if p, ok := s.Properties[step]; ok {
		return &p
	}
	if s.AdditionalProperties != nil {
		return s.AdditionalProperties.Structural
	}
	return nil
}

// metadataFields are those of the metadata of every object.
func metadataFields() []string {
	var out []string
	for f := range reflect.TypeFor[metav1.ObjectMeta]().Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
