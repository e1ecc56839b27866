package lock

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
)

// inMemory serves without a network, so that time can be the test's own.
type inMemory struct{ h http.Handler }

func (m inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	m.h.ServeHTTP(w, r)
	return w.Result(), nil
}

// pool is a lock of n packages and a mirror that has them.
func pool(t *testing.T, n int) (*mirror, *Lock) {
	t.Helper()
	m := newMirror(t)
	l := &Lock{Suites: []Suite{{Name: "trixie", Archive: "debian"}}}
	for i := range n {
		body := bytes.Repeat([]byte{byte('a' + i)}, 1000+i)
		p := Package{Name: fmt.Sprintf("p%02d", i), Version: "1", Arch: "all", Path: fmt.Sprintf("debian/pool/p%02d.deb", i), Size: int64(len(body)), SHA256: fmt.Sprintf("%x", sha256.Sum256(body))}
		m.files["/"+p.Path] = body
		l.Packages = append(l.Packages, p)
	}
	return m, l
}

func fetching(m *mirror, dir string) Fetching {
	return Fetching{Dir: dir, Mirrors: Mirrors{"debian": "http://mirror/debian/"}, HTTP: &http.Client{Transport: inMemory{m}}}
}

func TestFetch(t *testing.T) {
	m, l := pool(t, 9)
	f := fetching(m, t.TempDir())
	f.Mirrors, f.HTTP = m.serve(t)
	var told []Progress
	f.Progress = func(p Progress) { told = append(told, p) }
	if Cached(f.Dir, l) {
		t.Fatal("an empty cache has it all")
	}
	if err := Fetch(t.Context(), f, l); err != nil {
		t.Fatal(err)
	}
	if !Cached(f.Dir, l) {
		t.Error("it is not in the cache")
	}
	last := told[len(told)-1]
	if len(told) != 9 || last.Done != 9 || last.All != 9 || last.Bytes != last.Sum || last.Sum != 9036 {
		t.Errorf("progress: %d times, last %+v", len(told), last)
	}
	for _, p := range l.Packages {
		if b, err := Read(f.Dir, p); err != nil || !bytes.Equal(b, m.files["/"+p.Path]) {
			t.Errorf("Read(%s) = %d bytes, %v", p, len(b), err)
		}
	}
	// A second time nothing is asked for; one that is cut off is.
	if err := os.Truncate(cachePath(f.Dir, l.Packages[3]), 5); err != nil {
		t.Fatal(err)
	}
	clear(m.asked)
	if err := Fetch(t.Context(), f, l); err != nil {
		t.Fatal(err)
	}
	if len(m.asked) != 1 || m.asked["/debian/pool/p03.deb"] != 1 {
		t.Errorf("asked for %v", m.asked)
	}
	left, err := filepath.Glob(filepath.Join(f.Dir, "packages", "*.tmp"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestFetchRetries(t *testing.T) {
	m, l := pool(t, 2)
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m.broken["/debian/pool/p01.deb"] = attempts - 1
		if err := Fetch(t.Context(), fetching(m, dir), l); err != nil {
			t.Fatal(err)
		}
		if n := m.asked["/debian/pool/p01.deb"]; n != attempts {
			t.Errorf("asked %d times", n)
		}
	})
}

func TestFetchRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(m *mirror, f *Fetching)
		want  string
		asked int
	}{
		"gone": {func(m *mirror, _ *Fetching) { delete(m.files, "/debian/pool/p00.deb") },
			"fetch p00 1: get http://mirror/debian/pool/p00.deb: the mirror no longer has it: a newer version has taken its place; run `make image-update`", 1},
		"another file":  {func(m *mirror, _ *Fetching) { m.files["/debian/pool/p00.deb"] = bytes.Repeat([]byte("x"), 1000) }, "it is not what packages.lock names: 1000 bytes", attempts},
		"longer":        {func(m *mirror, _ *Fetching) { m.files["/debian/pool/p00.deb"] = bytes.Repeat([]byte("a"), 9000) }, "not what packages.lock names: 1001 bytes", attempts},
		"shorter":       {func(m *mirror, _ *Fetching) { m.files["/debian/pool/p00.deb"] = nil }, "not what packages.lock names: 0 bytes", attempts},
		"broken mirror": {func(m *mirror, _ *Fetching) { m.broken["/debian/pool/p00.deb"] = 100 }, "the mirror answers 503", attempts},
		"no mirror":     {func(_ *mirror, f *Fetching) { f.Mirrors = Mirrors{} }, "there is no mirror of the archive debian", 0},
	} {
		t.Run(name, func(t *testing.T) {
			m, l := pool(t, 1)
			f := fetching(m, t.TempDir())
			synctest.Test(t, func(t *testing.T) {
				c.do(m, &f)
				err := Fetch(t.Context(), f, l)
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v, want %q", err, c.want)
				}
			})
			if n := m.asked["/debian/pool/p00.deb"]; n != c.asked {
				t.Errorf("asked %d times, want %d", n, c.asked)
			}
			if left, _ := os.ReadDir(filepath.Join(f.Dir, "packages")); len(left) > 0 {
				t.Errorf("left in the cache: %v", left)
			}
		})
	}
}

// stalls is a body that sends a part and then nothing until it is given up.
type stalls struct {
	ctx  context.Context
	sent bool
}

func (s *stalls) Read(p []byte) (int, error) {
	if !s.sent {
		s.sent = true
		return copy(p, "aaaa"), nil
	}
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}
func (s *stalls) Close() error { return nil }

type stalling struct{}

func (stalling) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: &stalls{ctx: r.Context()}}, nil
}

func TestFetchGivesUpOnSilence(t *testing.T) {
	m, l := pool(t, 1)
	f := fetching(m, t.TempDir())
	f.HTTP = &http.Client{Transport: stalling{}}
	synctest.Test(t, func(t *testing.T) {
		if err := Fetch(t.Context(), f, l); err == nil || !strings.Contains(err.Error(), "nothing was received for 30s") {
			t.Errorf("error %v", err)
		}
	})
}

func TestFetchStops(t *testing.T) {
	m, l := pool(t, 1)
	f := fetching(m, t.TempDir())
	m.broken["/debian/pool/p00.deb"] = 100
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Fetch(ctx, f, l); err == nil {
		t.Error("it went on")
	}
}

func TestReadRefuses(t *testing.T) {
	_, l := pool(t, 1)
	dir := t.TempDir()
	if _, err := Read(dir, l.Packages[0]); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("an empty cache: %v", err)
	}
	at := cachePath(dir, l.Packages[0])
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"", strings.Repeat("b", 1000), strings.Repeat("a", 1001)} {
		if err := os.WriteFile(at, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(dir, l.Packages[0]); err == nil || !strings.Contains(err.Error(), "is damaged; remove it") {
			t.Errorf("%d bytes: %v", len(content), err)
		}
	}
}

var _ io.ReadCloser = (*stalls)(nil)
