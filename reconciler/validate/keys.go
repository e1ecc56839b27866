package validate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema/v1alpha1"
	"github.com/writ-os/writ/schema/validate"
)

// RuleUnknownKey is the rule of findings about annotations and labels of our
// own domain that mean nothing: as they are ours, such a one is a typo.
const RuleUnknownKey = "UnknownKey"

// ownDomain is that of annotations and labels which this cluster reads.
const ownDomain = "writ.dev/"

// Keys says which annotations and labels of a manifest, and of the pods that it
// makes, are of our own domain and mean nothing.
func Keys(m *render.Manifest) []v1alpha1.Finding {
	if m.Sealed || m.Masked {
		return nil
	}
	var out []v1alpha1.Finding
	v, at := m.Value(), ""
	for _, path := range []string{"", "spec.template.", "spec.jobTemplate.", "spec.jobTemplate.spec.template."} {
		part := v
		if path != "" {
			part = v.Get(strings.Split(strings.TrimSuffix(path, "."), ".")...)
		}
		at = path + "metadata."
		out = append(out, unknownKeys(m, part.Get("metadata", "annotations"), at+"annotations", v1alpha1.ManifestAnnotations)...)
		out = append(out, unknownKeys(m, part.Get("metadata", "labels"), at+"labels", nil)...)
	}
	return out
}

func unknownKeys(m *render.Manifest, v render.Value, at string, known []string) (out []v1alpha1.Finding) {
	for key := range v.Fields() {
		if !strings.HasPrefix(key, ownDomain) || slices.Contains(known, key) {
			continue
		}
		f := v1alpha1.Finding{Field: fmt.Sprintf("%s[%s]", at, key), Rule: RuleUnknownKey, Hint: validate.DidYouMean(key, known)}
		f.File, f.Line, f.Column = v.KeyPlace(key)
		switch {
		case len(known) > 0:
			f.Message = "no annotation of this name means anything to the cluster"
		case slices.Contains(v1alpha1.ManifestAnnotations, key):
			f.Message, f.Hint = "it is read where it is an annotation, and this is a label", "write it under metadata.annotations"
		default:
			f.Message = "no label of this name means anything to the cluster"
		}
		place(&f, m)
		out = append(out, f)
	}
	return out
}
