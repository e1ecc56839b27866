package validate

import (
	"runtime"
	"strings"
	"sync"
	"testing"
)

// web is the Deployment of the corpus that manifests look like.
func web(t testing.TB) manifest {
	t.Helper()
	for _, m := range corpus(t) {
		if m.name == "Deployment/web" {
			return m
		}
	}
	t.Fatal("the corpus has no Deployment/web")
	return manifest{}
}

// broken returns a manifest with one wrong field.
func broken(m manifest) manifest {
	m.yaml = []byte(strings.Replace(string(m.yaml), "replicas: 3", "replicas: x", 1))
	m.json = []byte(strings.Replace(string(m.json), `"replicas":3`, `"replicas":"x"`, 1))
	return m
}

func BenchmarkJSON(b *testing.B) {
	m := web(b)
	b.ReportAllocs()
	for b.Loop() {
		if JSON(m.resource, m.json) != nil {
			b.Fatal("refused")
		}
	}
}

func BenchmarkExpr(b *testing.B) {
	m := web(b)
	expr := extract(b, "web.yaml", m.yaml)
	b.ReportAllocs()
	for b.Loop() {
		if Expr(m.resource, expr) != nil {
			b.Fatal("refused")
		}
	}
}

// BenchmarkExplain is an object that is refused.
func BenchmarkExplain(b *testing.B) {
	m := broken(web(b))
	expr := extract(b, "web.yaml", m.yaml)
	b.ReportAllocs()
	for b.Loop() {
		if Expr(m.resource, expr) == nil {
			b.Fatal("accepted")
		}
	}
}

// BenchmarkCUE is what every object would cost without the JSON Schema.
func BenchmarkCUE(b *testing.B) {
	m := web(b)
	expr := extract(b, "web.yaml", m.yaml)
	b.ReportAllocs()
	for b.Loop() {
		if !cueAccepts(m.resource, expr) {
			b.Fatal("refused")
		}
	}
}

// BenchmarkFirst compiles everything that the first Deployment of a process
// needs.
func BenchmarkFirst(b *testing.B) {
	m := web(b)
	v, _, err := decode(m.json)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		var a acceptor
		if !a.compile(m.resource.Kind).accepts(v) {
			b.Fatal("refused")
		}
	}
}

// BenchmarkFirstRefusal builds the CUE definitions.
func BenchmarkFirstRefusal(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := loadDefinitions(); err != nil {
			b.Fatal(err)
		}
	}
}

// TestNothingIsKept validates thousands of objects, good and bad: the heap must
// not grow with them.
func TestNothingIsKept(t *testing.T) {
	good := web(t)
	bad := broken(good)
	round := func(n int) uint64 {
		for range n {
			if Expr(good.resource, extract(t, "web.yaml", good.yaml)) != nil || JSON(good.resource, good.json) != nil {
				t.Fatal("refused")
			}
			if Expr(bad.resource, extract(t, "web.yaml", bad.yaml)) == nil || JSON(bad.resource, bad.json) == nil {
				t.Fatal("accepted")
			}
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := round(100)
	after := round(1000)
	if grown := int64(after) - int64(before); grown > 1<<20 {
		t.Errorf("the heap grew by %d KB in 1000 rounds", grown>>10)
	}
}

// TestConcurrent validates good and bad objects of every kind from several
// goroutines; the race detector watches.
func TestConcurrent(t *testing.T) {
	all := corpus(t)
	bad := broken(web(t))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for _, m := range all {
				if fs := JSON(m.resource, m.json); fs != nil {
					t.Errorf("%s: %v", m.name, fs)
				}
			}
			if fs := Expr(bad.resource, extract(t, "web.yaml", bad.yaml)); len(fs) != 1 {
				t.Errorf("findings %v", fs)
			}
		})
	}
	wg.Wait()
}

// FuzzJSON feeds bytes: whatever they are, there is no panic, and what is
// accepted is accepted by CUE too.
func FuzzJSON(f *testing.F) {
	byKind := corpus(f)
	for i, m := range byKind {
		f.Add(uint8(i), m.json)
	}
	f.Add(uint8(1), []byte(`{"spec":{"containers":[null]}}`))
	f.Add(uint8(1), []byte(`{"spec":1e999}`))
	f.Fuzz(func(t *testing.T, i uint8, data []byte) {
		m := byKind[int(i)%len(byKind)]
		for _, fd := range JSON(m.resource, data) {
			if fd.Rule == "" || fd.Message == "" {
				t.Errorf("incomplete finding %+v", fd)
			}
		}
	})
}
