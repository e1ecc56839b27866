package render

import (
	"fmt"
	"strings"
	"testing"
)

// endless is a package that takes CUE for ever.
const endless = `package x

l: [for i in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] for j in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] {i * j}]
a: [for x in l for y in l for z in l for w in l {x + y + z + w}]
cm: {apiVersion: "v1", kind: "ConfigMap", metadata: name: "x", data: n: "\(len(a))"}
`

// greedy is a package that takes all memory at once.
func greedy() string {
	var b strings.Builder
	b.WriteString("package x\ns0: \"" + strings.Repeat("x", 1<<10) + "\"\n")
	for i := range 40 {
		fmt.Fprintf(&b, "s%d: s%d + s%d\n", i+1, i, i)
	}
	b.WriteString("cm: {apiVersion: \"v1\", kind: \"ConfigMap\", metadata: name: \"x\", data: s: s40}\n")
	return b.String()
}

// manyObjects is a kustomization of n objects.
func manyObjects(n int) memTree {
	tree := memTree{}
	var list strings.Builder
	for i := range n {
		tree[fmt.Sprintf("k/%d.yaml", i)] = fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d}\ndata: {a: b}\n", i)
		fmt.Fprintf(&list, "- %d.yaml\n", i)
	}
	tree["k/kustomization.yaml"] = "namespace: x\nresources:\n" + list.String()
	return tree
}

func BenchmarkKustomize(b *testing.B) {
	for _, n := range []int{100, 400} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchmark(b, manyObjects(n), Options{}) })
	}
}

func BenchmarkHelm(b *testing.B) { benchmark(b, treeOf(b, "helm.txtar"), Options{}) }
