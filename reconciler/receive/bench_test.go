package receive

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"
)

// timed is the remote behind a clock that runs while a POST of service is
// being served.
func timed(b *testing.B, s *server, service string) (url string, spent *atomic.Int64) {
	spent = new(atomic.Int64)
	inner := withUser(s.Remote)
	ts := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		start := time.Now()
		inner.ServeHTTP(w, req)
		if req.Method == http.MethodPost && filepath.Base(req.URL.Path) == service {
			spent.Add(int64(time.Since(start)))
		}
	}))
	b.Cleanup(ts.Close)
	s.url = ts.URL
	return s.as("pusher"), spent
}

func manifests(n int) fstest.MapFS {
	files := make(fstest.MapFS)
	for i := range n {
		files[name(i)] = &fstest.MapFile{Data: fmt.Appendf(nil, "kind: ConfigMap\nmetadata:\n  name: c%d\ndata:\n  key: %x\n", i, i*i*7919)}
	}
	return files
}

func name(i int) string { return fmt.Sprintf("apps/%02d/config-%04d.yaml", i%50, i) }

// BenchmarkPush pushes 10 changed files of 4,000. server-ms is what the
// server spends on one push, everything included but the connection.
func BenchmarkPush(b *testing.B) {
	s := newServer(b)
	if _, err := s.Seed("cluster", manifests(4000), "Seed"); err != nil {
		b.Fatal(err)
	}
	url, spent := timed(b, s, receivePack)
	clone := filepath.Join(b.TempDir(), "clone")
	git(b, b.TempDir(), "clone", "-q", url, clone)
	spent.Store(0)
	n := 0
	for b.Loop() {
		b.StopTimer()
		for i := range 10 {
			write(b, clone, map[string]string{name((n*10 + i) % 4000): fmt.Sprintf("changed: %d\n", n)})
		}
		n++
		commit(b, clone, "Change")
		b.StartTimer()
		git(b, clone, "push", "-q", "origin", "main")
	}
	b.ReportMetric(float64(spent.Load())/1e6/float64(n), "server-ms/op")
}

// BenchmarkClone clones 4,000 files.
func BenchmarkClone(b *testing.B) {
	s := newServer(b)
	if _, err := s.Seed("cluster", manifests(4000), "Seed"); err != nil {
		b.Fatal(err)
	}
	url, spent := timed(b, s, uploadPack)
	n := 0
	for b.Loop() {
		git(b, b.TempDir(), "clone", "-q", "--bare", url, filepath.Join(b.TempDir(), "clone"))
		n++
	}
	b.ReportMetric(float64(spent.Load())/1e6/float64(n), "server-ms/op")
}
