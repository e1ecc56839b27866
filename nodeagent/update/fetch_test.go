package update

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// origin is a server of one file that breaks off when it is told to.
type origin struct {
	*httptest.Server
	content []byte
	ranges  bool
	after   int // bytes of an answer after which it breaks off; 0 never does
	asked   []string
}

func newOrigin(t *testing.T, content []byte) *origin {
	o := &origin{content: content, ranges: true}
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.asked = append(o.asked, r.Header.Get("Range"))
		if !o.ranges {
			r.Header.Del("Range")
		}
		if o.after > 0 {
			w = &breaking{w, o.after}
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(o.content))
	}))
	t.Cleanup(o.Close)
	return o
}

type breaking struct {
	http.ResponseWriter
	left int
}

func (b *breaking) Write(p []byte) (int, error) {
	if len(p) < b.left {
		b.left -= len(p)
		return b.ResponseWriter.Write(p)
	}
	if _, err := b.ResponseWriter.Write(p[:b.left]); err != nil {
		return 0, err
	}
	b.ResponseWriter.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

func (o *origin) image() Image {
	sum := sha256.Sum256(o.content)
	return Image{Name: "v5", Version: "5.0.0", URL: o.URL + "/v5", Digest: "sha256:" + hex.EncodeToString(sum[:]), Size: int64(len(o.content))}
}

func newFetcher(t *testing.T, o *origin) fetcher {
	c := o.Client()
	t.Cleanup(c.CloseIdleConnections)
	return fetcher{dir: t.TempDir(), http: c}
}

func whole(t *testing.T, f fetcher, i Image, content []byte) {
	t.Helper()
	got, err := os.ReadFile(f.path(i, bundleSuffix))
	if err != nil || !bytes.Equal(got, content) || !f.has(i) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestFetch(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789"), 20000)
	o := newOrigin(t, content)
	f := newFetcher(t, o)
	i := o.image()
	var last string
	o.after = 120000
	err := f.fetch(t.Context(), i, nil)
	if err == nil || isDistrust(err) || !strings.Contains(err.Error(), "fetch 5.0.0 from 127.0.0.1:") || !strings.Contains(err.Error(), "the connection broke") {
		t.Errorf("%v", err)
	}
	// It goes on where it broke off, also when that happens again.
	if err := f.fetch(t.Context(), i, nil); err != nil {
		t.Fatal(err) // what is left is less than it gives
	}
	whole(t, f, i, content)
	if got := fmt.Sprint(o.asked); got != "[ bytes=120000-]" {
		t.Errorf("asked for %s", got)
	}

	// A source that knows no ranges begins anew.
	if err := f.clean(Image{}); err != nil || f.any() {
		t.Fatalf("not clean: %v", err)
	}
	if err := f.fetch(t.Context(), i, nil); err == nil {
		t.Error("was not broken off")
	}
	o.ranges, o.after = false, 0
	if err := f.fetch(t.Context(), i, func(done, total int64) { last = fmt.Sprint(done, total) }); err != nil {
		t.Fatal(err)
	}
	whole(t, f, i, content)
	if last != "200000 200000" {
		t.Errorf("progress ended at %s", last)
	}
	// Another image takes the place.
	other := o.image()
	other.Digest = "sha256:" + strings.Repeat("ab", 32)
	var distrust *distrustError
	if err := f.fetch(t.Context(), other, nil); !errors.As(err, &distrust) {
		t.Errorf("%v", err)
	}
	if f.any() {
		t.Error("downloads are left over")
	}
}

// What came before is not the source's fault: it is judged by what it sends as a
// whole.
func TestFetchOverRemains(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789"), 2000)
	o := newOrigin(t, content)
	for name, remains := range map[string][]byte{
		"of another file": bytes.Repeat([]byte("x"), 5000),
		"as long":         bytes.Repeat([]byte("x"), len(content)),
		"longer":          bytes.Repeat([]byte("x"), len(content)+1),
	} {
		for _, sized := range []bool{true, false} {
			t.Run(fmt.Sprint(name, sized), func(t *testing.T) {
				f, i := newFetcher(t, o), o.image()
				if !sized {
					i.Size = 0
				}
				if err := os.WriteFile(f.path(i, partSuffix), remains, 0o600); err != nil {
					t.Fatal(err)
				}
				err := f.fetch(t.Context(), i, nil)
				if err != nil && isDistrust(err) {
					t.Errorf("distrusted: %v", err)
				}
				if err != nil {
					if err = f.fetch(t.Context(), i, nil); err != nil {
						t.Fatal(err)
					}
				}
				whole(t, f, i, content)
			})
		}
	}
}

func TestFetchErrors(t *testing.T) {
	content := []byte("content")
	for name, tt := range map[string]struct {
		answer func(w http.ResponseWriter, r *http.Request)
		want   string
		final  bool
	}{
		"404":     {http.NotFound, "it answered 404 Not Found", false},
		"longer":  {func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("content and more")) }, "5.0.0 is longer than the 7 bytes that are declared", true},
		"shorter": {func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("cont")) }, "it ended after 4 of 7 bytes", false},
		"another": {func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("kontent")) }, "is refused: its digest is", true},
		"a part": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", "bytes 3-5/7")
			w.WriteHeader(206)
		}, `it sent the part "bytes 3-5/7"`, false},
		"no range":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(416) }, "it answered 416", false},
		"round about": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }, "stopped after 10 redirects", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(tt.answer))
			t.Cleanup(s.Close)
			o := &origin{Server: s, content: content}
			f, i := newFetcher(t, o), o.image()
			err := f.fetch(t.Context(), i, nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) || isDistrust(err) != tt.final || f.has(i) {
				t.Errorf("%v (final %v), want %q", err, isDistrust(err), tt.want)
			}
		})
	}
	o := newOrigin(t, content)
	f, i := newFetcher(t, o), o.image()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.fetch(ctx, i, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	i.URL = "https://127.0.0.1:1/secret"
	if err := f.fetch(t.Context(), i, nil); err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat("/dev/full"); err == nil {
		f, i := newFetcher(t, o), o.image()
		if err := os.Symlink("/dev/full", f.path(i, partSuffix)); err != nil {
			t.Fatal(err)
		}
		if err := f.fetch(t.Context(), i, nil); err == nil || !strings.Contains(err.Error(), "no room for the bundle of 5.0.0") {
			t.Errorf("%v", err)
		}
	}
}
