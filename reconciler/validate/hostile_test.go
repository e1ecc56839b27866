package validate

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/writ-os/writ/reconciler/cuerule/cueruletest"
	"github.com/writ-os/writ/reconciler/render"
)

// TestHostile: values that are made to hurt cost a bounded time and memory
// where the definitions of their kinds are held against them, which is done in
// the server.
func TestHostile(t *testing.T) {
	deployment := func(spec string) string {
		return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\nspec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: " + spec + "}}\n"
	}
	for name, text := range map[string]string{
		"wide list":         deployment("{containers: [" + strings.Repeat("{name: a, image: b}, ", 2_000) + "]}"),
		"wide list, wrong":  deployment("{containers: [" + strings.Repeat("{nam: 1}, ", 2_000) + "]}"),
		"wide inner list":   deployment("{containers: [{name: a, image: b, args: [" + strings.Repeat("a, ", 20_000) + "]}]}"),
		"wide list of ints": deployment("{containers: [{name: a, image: b, args: [" + strings.Repeat("1, ", 20_000) + "]}]}"),
		"long text":         deployment("{containers: [{name: a, image: \"" + strings.Repeat("a", 9<<20) + "\"}]}"),
		"deep":              deployment("{containers: " + strings.Repeat("[", 50) + strings.Repeat("]", 50) + "}"),
	} {
		t.Run(name, func(t *testing.T) {
			units, _, err := render.Scan(cueruletest.Files(map[string]string{"x.yaml": text}))
			if err != nil {
				t.Fatal(err)
			}
			out, err := render.Render(context.Background(), &units[0])
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			begin, found := time.Now(), 0
			for i := range out.Manifests {
				found += len(Manifest(&out.Manifests[i]))
			}
			runtime.ReadMemStats(&after)
			took, mb := time.Since(begin), (after.TotalAlloc-before.TotalAlloc)>>20
			t.Logf("%s, %d MB, %d findings; render says %v", took, mb, found, out.Findings)
			if took > 20*time.Second || mb > 1500 {
				t.Errorf("took %s and %d MB", took, mb)
			}
		})
	}
}
