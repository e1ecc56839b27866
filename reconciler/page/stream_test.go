package page

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// bubble is synctest.Test on one processor. Go 1.26 lets all timers of a bubble
// fire with one context of the race detector, without a lock: while the bubble
// goes through what is due, a goroutine that it woke up looks at its own ticker
// on another processor, and the detector dies of SIGSEGV. Hundreds of streams,
// each with two tickers and a deadline, met it in one run of three.
func bubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, f)
}

// listener is a browser that listens.
type listener struct {
	mu   sync.Mutex
	text strings.Builder
	head http.Header
	code int
}

func (l *listener) Header() http.Header { return l.head }
func (l *listener) WriteHeader(c int)   { l.code = c }
func (l *listener) Flush()              {}
func (l *listener) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// count says how often something has been heard.
func (l *listener) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

// listen opens a stream in a bubble; done is closed when it ends.
func listen(ctx context.Context, p *Page, u user.Info, topics string) (l *listener, done chan struct{}) {
	l, done = &listener{head: http.Header{}}, make(chan struct{})
	r := httptest.NewRequest(http.MethodGet, "/ui/live?topics="+topics, nil).WithContext(ctx)
	go func() {
		defer close(done)
		as(p, u).ServeHTTP(l, r)
	}()
	synctest.Wait()
	return l, done
}

// running is a page with its hub, in a bubble.
func running(t *testing.T, cfg Config) (p *Page, stop func()) {
	t.Helper()
	if cfg.Authorize == nil {
		cfg.Authorize = allow
	}
	p = New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	synctest.Wait()
	return p, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func config(ns, name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Data: map[string]string{"v": value}}
}

const changed = "event: changed\n"

func TestStream(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := client.NewFake(config("a", "first", ""))
		p, stop := running(t, Config{Cache: f.Cache()})
		ctx, leave := context.WithCancel(t.Context())
		objects, gone := listen(ctx, p, jane, "objects")
		commits, _ := listen(ctx, p, jane, "commits")
		time.Sleep(time.Second)
		synctest.Wait()
		// What exists is no change, but the page looks again once the hub listens.
		if n := objects.count(changed); n != 1 {
			t.Fatalf("%d words at the beginning", n)
		}
		if objects.head.Get("Content-Type") != "text/event-stream; charset=utf-8" {
			t.Errorf("headers: %v", objects.head)
		}
		before := commits.count(changed)
		for i := range 500 {
			f.Put(config("a", fmt.Sprint("c", i), "x"))
		}
		time.Sleep(40 * time.Millisecond)
		synctest.Wait()
		if n := objects.count(changed); n != 2 {
			t.Errorf("500 changes at once are %d words", n-1)
		}
		for range 100 { // ten seconds of ten changes a second
			f.Put(config("a", "c0", fmt.Sprint(f.Writes())))
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		if n := objects.count(changed) - 2; n < 17 || n > 21 {
			t.Errorf("ten seconds of changes are %d words", n)
		}
		if n := commits.count(changed) - before; n != 0 {
			t.Errorf("a page of commits heard %d words about objects", n)
		}
		last := objects.count(changed)
		time.Sleep(time.Minute)
		synctest.Wait()
		if objects.count(changed) > last+1 || objects.count(": alive") < 4 {
			t.Errorf("a quiet minute: %d words, %d heartbeats", objects.count(changed)-last, objects.count(": alive"))
		}
		leave()
		<-gone
		stop()
	})
}

// TestStreamTellsNothingForbidden: that something has changed which the viewer
// may not read is nothing to hear of either.
func TestStreamTellsNothingForbidden(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := client.NewFake()
		p, stop := running(t, Config{Cache: f.Cache(), Authorize: func(_ context.Context, _ user.Info, _ string, _ *schema.Resource, ns, _ string) bool {
			return ns == "open"
		}})
		defer stop()
		l, _ := listen(t.Context(), p, jane, "objects,nodes,events")
		time.Sleep(time.Second)
		before := l.count(changed)
		f.Put(config("closed", "a", ""))
		f.Put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if n := l.count(changed); n != before {
			t.Errorf("%d words about what may not be read", n-before)
		}
		f.Put(config("open", "a", ""))
		time.Sleep(time.Second)
		synctest.Wait()
		if n := l.count(changed); n != before+1 {
			t.Errorf("%d words about what may be read", n-before)
		}
	})
}

// counted counts subscriptions that are alive.
type counting struct {
	client.Cache
	mu    sync.Mutex
	alive int
}

func (c *counting) Subscribe(ctx context.Context, r *schema.Resource, fn func(client.Event)) error {
	c.mu.Lock()
	c.alive++
	c.mu.Unlock()
	context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.alive--
	})
	return c.Cache.Subscribe(ctx, r, fn)
}

func (c *counting) count() int {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.alive
}

func TestHubListensOnlyWhileSomebodyLooks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := &counting{Cache: client.NewFake().Cache()}
		p, stop := running(t, Config{Cache: c})
		if n := c.count(); n != 0 {
			t.Errorf("%d subscriptions with nobody there", n)
		}
		ctx, leave := context.WithCancel(t.Context())
		_, done := listen(ctx, p, jane, "objects")
		if n := c.count(); n < 20 {
			t.Errorf("%d subscriptions with a page open", n)
		}
		leave()
		<-done
		if n := c.count(); n < 20 {
			t.Errorf("%d subscriptions right after the last page: a reload is costly", n)
		}
		time.Sleep(3 * linger)
		if n := c.count(); n != 0 {
			t.Errorf("%d subscriptions long after the last page", n)
		}
		_, done = listen(t.Context(), p, jane, "objects")
		if n := c.count(); n < 20 {
			t.Errorf("%d subscriptions with a page open again", n)
		}
		stop() // streams end with Run
		<-done
		if n := c.count(); n != 0 {
			t.Errorf("%d subscriptions after the end", n)
		}
		if l, _ := listen(t.Context(), p, jane, "objects"); l.code != http.StatusServiceUnavailable {
			t.Errorf("a stream after the end: %d", l.code)
		}
	})
}

func TestStreamsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, stop := running(t, Config{Cache: client.NewFake().Cache()})
		defer stop()
		open := 0
		for i := range maxStreams + 40 {
			u := &user.DefaultInfo{Name: fmt.Sprint("user-", i/40), Groups: []string{user.AllAuthenticated}}
			if l, _ := listen(t.Context(), p, u, "commits"); l.code == 0 {
				open++
			} else if l.head.Get("Retry-After") == "" {
				t.Error("a refusal does not say when to come again")
			}
		}
		if want := (maxStreams+40)/40*maxUserStreams + (maxStreams+40)%40; open > maxStreams || open != min(want, maxStreams) {
			t.Errorf("%d streams are open, want %d", open, want)
		}
		time.Sleep(maxAge + time.Second)
		synctest.Wait()
		if n := p.hub.count(); n != 0 {
			t.Errorf("%d streams are older than they may be", n)
		}
	})
}
