package render

import (
	"strings"
	"testing"
)

// TestBrokenDown: an evaluator or decoder that breaks down costs its unit, and not
// the process. The units lack their content, which stands for the mistake.
func TestBrokenDown(t *testing.T) {
	for format, what := range map[format]string{formatCUE: "CUE package", formatKustomize: "Kustomize build"} {
		out, err := run(&Rendered{unit: &Unit{Path: "a", format: format}}, nil)
		if err != nil || len(out.Findings) != 1 || out.Findings[0].File != "a" || !strings.Contains(out.Findings[0].Message, "evaluation of the "+what+" broke down") {
			t.Errorf("%s: %+v, %v", what, out, err)
		}
	}
}
