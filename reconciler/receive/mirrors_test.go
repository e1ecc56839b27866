package receive

import (
	"context"
	"errors"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writ-os/writ/reconciler/source"
)

// bare is a bare repository that git itself serves over HTTP, and that can be
// away.
type bare struct {
	dir, url string
	away     atomic.Bool
}

func newBare(t *testing.T) *bare {
	t.Helper()
	root := t.TempDir()
	b := &bare{dir: filepath.Join(root, "copy.git")}
	git(t, root, "init", "-q", "--bare", "-b", "main", b.dir)
	git(t, b.dir, "config", "http.receivepack", "true")
	path, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	backend := &cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"),
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1"}}
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if b.away.Load() {
			http.Error(w, "closed for today", http.StatusBadGateway)
			return
		}
		backend.ServeHTTP(w, req)
	}))
	t.Cleanup(ts.Close)
	b.url = strings.Replace(ts.URL, "http://", "http://someone:token@", 1) + "/copy.git"
	return b
}

func (b *bare) head(t *testing.T) string {
	t.Helper()
	out, err := tryGit(t, b.dir, "rev-parse", "--verify", "-q", "main")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(out)
}

// running keeps the mirrors of a server until the test is over, or stop is
// called: what an exchange has written last is whole by then.
func running(t *testing.T, s *server) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// soon polls what another process or a loop brings about. It is far below the
// interval of a mirror, so that what comes in time did not come by it.
func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	const limit = 15 * time.Second
	begin := time.Now()
	for ; !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begin) > limit {
			t.Fatalf("%s: not within %s", what, limit)
		}
	}
	t.Logf("%s: after %s", what, time.Since(begin).Round(time.Millisecond))
}

func change(t *testing.T, clone, content string) (sha string) {
	t.Helper()
	write(t, clone, map[string]string{"a": content})
	sha = commit(t, clone, content)
	git(t, clone, "push", "-q", "origin", "main")
	return sha
}

// Mirrors come, change and go while the server runs; what is wrong with one is
// of no concern to the others.
func TestMirrorsFollow(t *testing.T) {
	var mirrored, keys atomic.Int32
	s, clone := seeded(t, func(c *Config) {
		c.Mirrored = func() { mirrored.Add(1) }
		c.Credentials = func(name string) (source.Auth, error) {
			if keys.Load() == 0 {
				return source.Auth{}, errors.New("there is no Secret " + name)
			}
			return source.Auth{}, nil
		}
	})
	stop := running(t, s)
	one, two := newBare(t), newBare(t)
	first := Mirror{Repository: "cluster", URL: one.url}
	s.SetMirrors([]Mirror{first})
	soon(t, "the first mirror follows", func() bool { return one.head(t) == git(t, clone, "rev-parse", "main") })
	was := s.kept()[0]

	s.SetMirrors([]Mirror{{Repository: "cluster", URL: "https://someone:pa ss@host:x/y", Pull: true}, {Repository: "elsewhere", URL: two.url}, first,
		first, {Repository: "cluster", URL: two.url, Credentials: "writ/copy"}})
	soon(t, "two mirrors fail", func() bool {
		st := s.Mirrors()
		return len(st) == 3 && st[0].Failures > 0 && st[2].Failures > 0
	})
	if st := s.Mirrors(); st[0].URL != "https://host:x/y" || st[0].Failing.IsZero() || strings.Contains(st[0].Message, "pa ss") ||
		st[2].Message != "there is no Secret writ/copy" || st[1].Failures != 0 || strings.Contains(st[1].URL, "token") {
		t.Errorf("%+v", st)
	}
	if s.kept()[1] != was {
		t.Error("a mirror that stays begins anew")
	}
	sha := change(t, clone, "x")
	soon(t, "the first mirror follows a push", func() bool { return one.head(t) == sha })
	keys.Store(1)
	s.CredentialsChanged("writ/copy")
	soon(t, "the second mirror has its credentials", func() bool { return two.head(t) == sha })

	s.SetMirrors([]Mirror{{Repository: "cluster", URL: one.url, Refs: []string{"refs/heads/side"}}})
	git(t, clone, "push", "-q", "origin", "main:side")
	last := change(t, clone, "y")
	soon(t, "the changed mirror follows", func() bool {
		out, err := tryGit(t, one.dir, "rev-parse", "side")
		return err == nil && strings.TrimSpace(out) == sha
	})
	if one.head(t) != sha || two.head(t) != sha {
		t.Errorf("main is %s and %s after the mirrors of it went, pushed %s", one.head(t), two.head(t), last)
	}
	soon(t, "that is told", func() bool {
		st := s.Mirrors()
		return len(st) == 1 && !st[0].InStep.IsZero() && mirrored.Load() >= 5
	})
	stop()
	s.verify(t)
}

// A host that is away misses nothing: its mirror tells, and goes on.
func TestMirrorComesBack(t *testing.T) {
	s, clone := seeded(t)
	b := newBare(t)
	s.SetMirrors([]Mirror{{Repository: "cluster", URL: b.url, Interval: time.Second}})
	running(t, s)
	soon(t, "the mirror follows", func() bool { return b.head(t) != "" })
	soon(t, "the mirror is in step", func() bool { return !s.Mirrors()[0].Looked.IsZero() })
	before := s.Mirrors()[0]
	b.away.Store(true)
	sha := change(t, clone, "x")
	soon(t, "the failure is told", func() bool { return s.Mirrors()[0].Failures > 0 })
	if st := s.Mirrors()[0]; !st.InStep.Equal(before.InStep) || st.Message == "" || strings.Contains(st.Message, "token") {
		t.Errorf("away: %+v", st)
	}
	b.away.Store(false)
	soon(t, "the mirror goes on", func() bool { return b.head(t) == sha && s.Mirrors()[0].Failures == 0 })
	back := s.Mirrors()[0]
	if !back.InStep.After(before.InStep) || !back.Failing.IsZero() || back.Message != "" {
		t.Errorf("back: %+v", back)
	}
	soon(t, "another look", func() bool { return s.Mirrors()[0].Looked.After(back.Looked) })
	if st := s.Mirrors()[0]; !st.InStep.Equal(back.InStep) {
		t.Errorf("in step since %s, and after a look at the same since %s", back.InStep, st.InStep)
	}
}

// A mirror that is taken away in the middle of an exchange ends at once.
func TestMirrorGoes(t *testing.T) {
	s, _ := seeded(t)
	entered, left := make(chan struct{}, 1), make(chan struct{})
	ts := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		entered <- struct{}{}
		<-req.Context().Done()
		close(left)
	}))
	t.Cleanup(ts.Close)
	s.SetMirrors([]Mirror{{Repository: "cluster", URL: ts.URL + "/copy.git"}})
	running(t, s)
	<-entered
	s.SetMirrors(nil)
	select {
	case <-left:
	case <-time.After(10 * time.Second):
		t.Fatal("the exchange goes on")
	}
	if st := s.Mirrors(); st != nil {
		t.Errorf("%+v", st)
	}
}

// A file that says nothing is as good as none.
func TestMirrorState(t *testing.T) {
	s, _ := seeded(t)
	m := Mirror{Repository: "cluster", URL: "https://user:secret@host/x?token=secret"}
	s.SetMirrors([]Mirror{m})
	k := s.kept()[0]
	k.note(t.Context(), errors.New(strings.Repeat("é", maxMessage)))
	s.SetMirrors(nil)
	s.SetMirrors([]Mirror{m})
	if st := s.Mirrors()[0]; st.Failures != 1 || len(st.Message) > maxMessage+10 || st.URL != "https://host/x" {
		t.Errorf("%+v", st)
	}
	b, err := os.ReadFile(k.file)
	if err != nil || strings.Contains(string(b), "secret") {
		t.Errorf("%v, %s", err, b)
	}
	if err := os.WriteFile(k.file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.SetMirrors(nil)
	s.SetMirrors([]Mirror{m})
	if st := s.Mirrors()[0]; st.Failures != 0 {
		t.Errorf("%+v", st)
	}
}

func TestNameOf(t *testing.T) {
	for address, want := range map[string]string{
		"https://host/a":                    "https://host/a",
		"https://u:p@host/@a/b?t=1#x":       "https://host/@a/b",
		"ssh://git@host:22/a":               "ssh://host:22/a",
		"git@host:a/b@c":                    "host:a/b@c",
		"https://u:p/@ss@host:bad/a":        "https://host:bad/a",
		"https://u:p@ho st/a":               "https://ho st/a",
		"/srv/a":                            "/srv/a",
		"https://token@host/a":              "https://host/a",
		"https://u:p%zz@host.example.com/x": "https://host.example.com/x",
	} {
		if got := nameOf(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}
