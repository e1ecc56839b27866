package nodepool

import (
	"fmt"
	"testing"
)

// BenchmarkDecide plans for 5,000 nodes in five pools, most of them to be
// updated.
func BenchmarkDecide(b *testing.B) {
	objects := []any{anImage("new", "1.1.0")}
	for i := range 5 {
		p := aPool(fmt.Sprint("p", i), "new", atMost("5%"))
		p.Spec.Selector.MatchLabels = map[string]string{"in": p.Name}
		objects = append(objects, p)
	}
	for i := range 5000 {
		n := in(fmt.Sprint("p", i%5), stagedNode(fmt.Sprintf("w%04d", i), "1.0.0", "new"))
		objects = append(objects, n)
		for j := range 10 {
			objects = append(objects, aPod(fmt.Sprintf("%s-%d", n.Name, j), n.Name))
		}
	}
	w := aWorld(objects...)
	b.ReportAllocs()
	for b.Loop() {
		decide(w, noon)
	}
}
