package render

import (
	"strconv"
	"strings"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// place reads the annotations that say when an object is applied: its wave,
// and what it depends on.
func place(out *Rendered, n *node, h *Head) {
	annotations := n.get("metadata", "annotations")
	if annotations == nil || annotations.kind != mapNode {
		return
	}
	for _, key := range []string{v1alpha1.WaveAnnotation, v1alpha1.ArgoWaveAnnotation} {
		v := annotations.get(key)
		if v == nil || v.kind != stringNode {
			continue
		}
		wave, err := strconv.Atoi(strings.TrimSpace(v.text))
		if err != nil {
			f := at(v.pos, "WrongType", key+" must be a whole number, not "+strconv.Quote(v.text))
			f.Object, f.Field, f.Hint = h.Object(), "metadata.annotations", `quote it: "1"`
			out.find(f)
			continue
		}
		h.Wave = wave
		break
	}
	v := annotations.get(v1alpha1.DependsOnAnnotation)
	if v == nil || v.kind != stringNode {
		return
	}
	for name := range strings.SplitSeq(v.text, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if parts := strings.Count(name, "/"); parts != 1 && parts != 2 {
			f := at(v.pos, "WrongType", strconv.Quote(name)+" names no object")
			f.Object, f.Field, f.Hint = h.Object(), "metadata.annotations", "write Kind/namespace/name, or Kind/name of a cluster-scoped one"
			out.find(f)
			continue
		}
		h.DependsOn = append(h.DependsOn, name)
	}
}
