package page

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// BenchmarkPages makes pages of a cluster with 5,000 declared objects.
func BenchmarkPages(b *testing.B) {
	f := newFixture(noon)
	for i := range 4750 {
		f.declare("shop", fmt.Sprintf("many/f%03d.yaml", i/20), 3, &corev1.ConfigMap{ObjectMeta: f.meta("shop", fmt.Sprintf("many-%04d", i), time.Hour)})
	}
	f.refresh()
	p := New(Config{Cache: f.Cache(), Authorize: allow, Now: f.clock})
	for name, path := range map[string]string{"overview": "/ui/", "commits": "/ui/commits", "objects": "/ui/objects", "everything": "/ui/objects?all=1&by=kind",
		"object": "/ui/objects/apps/deployments/shop/gateway", "repository": "/ui/repositories/shop", "nodes": "/ui/nodes"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n = get(p, path, "Accept-Encoding", "gzip").Body.Len()
			}
			b.ReportMetric(float64(n), "bytes/page")
		})
	}
}
