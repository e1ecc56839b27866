package receive

import (
	"context"
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/writ-os/writ/reconciler/source"
)

// mirrored is a server with a mirror of other; its loops are not running.
func mirrored(t *testing.T, other *server, ca []byte, change func(*Mirror)) *server {
	t.Helper()
	s := newServer(t, func(c *Config) {
		c.Credentials = func(string) (source.Auth, error) { return source.Auth{CA: ca}, nil }
	})
	m := Mirror{Repository: "cluster", URL: other.as("admin"), Credentials: "ca"}
	change(&m)
	s.SetMirrors([]Mirror{m})
	return s
}

// withCA is a server whose certificate can be given as a CA.
func withCA(t *testing.T) (*server, []byte) {
	t.Helper()
	s := newServer(t)
	ts := httptest.NewTLSServer(withUser(s.Remote))
	t.Cleanup(ts.Close)
	s.url = ts.URL
	return s, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ts.Certificate().Raw})
}

func (s *server) sync(t *testing.T) error {
	t.Helper()
	m := s.mirrors[0]
	err := m.sync(t.Context())
	m.note(t.Context(), err)
	return err
}

func refsOf(t *testing.T, s *server) string {
	t.Helper()
	return git(t, s.RepoDir("cluster"), "for-each-ref", "--format=%(objectname) %(refname)")
}

func TestMirrorPushes(t *testing.T) {
	other, ca := withCA(t)
	s := mirrored(t, other, ca, func(*Mirror) {})
	if _, err := s.Seed("cluster", guestbook, "Guestbook"); err != nil {
		t.Fatal(err)
	}
	clone := t.TempDir()
	git(t, clone, "clone", "-q", s.as("pusher"), ".")
	for range 2 {
		write(t, clone, map[string]string{"a": time.Now().String()})
		commit(t, clone, "One")
		git(t, clone, "push", "-q", "origin", "main", "main:side")
		if len(s.mirrors[0].wake) != 1 {
			t.Error("a push does not wake the mirror")
		}
		<-s.mirrors[0].wake
		if err := s.sync(t); err != nil {
			t.Fatal(err)
		}
		if a, b := refsOf(t, s), refsOf(t, other); a != b {
			t.Errorf("here:\n%s\nthere:\n%s", a, b)
		}
	}
	other.verify(t)
	if st := s.Mirrors()[0]; st.InStep.IsZero() || st.Failures != 0 || len(st.Refs) != 2 || strings.Contains(st.URL, "token") {
		t.Errorf("%+v", st)
	}
	// Someone commits over there: it is told, and nothing is lost.
	there := t.TempDir()
	git(t, there, "clone", "-q", other.as("pusher"), ".")
	write(t, there, map[string]string{"b": "1"})
	commit(t, there, "Theirs")
	git(t, there, "push", "-q", "origin", "main")
	write(t, clone, map[string]string{"c": "1"})
	commit(t, clone, "Ours")
	git(t, clone, "push", "-q", "origin", "main")
	if err := s.sync(t); err == nil || !strings.Contains(err.Error(), "which is not in the history here") {
		t.Errorf("%v", err)
	}
	kept := s.mirrors[0].cfg
	s.SetMirrors(nil)
	s.SetMirrors([]Mirror{kept}) // the state outlives the process
	if st := s.Mirrors()[0]; st.Failures != 1 || st.Failing.IsZero() || st.Message == "" || len(st.Refs) != 2 {
		t.Errorf("after a restart: %+v", st)
	}
}

func TestMirrorPulls(t *testing.T) {
	other, ca := withCA(t)
	if _, err := other.Seed("cluster", guestbook, "Guestbook"); err != nil {
		t.Fatal(err)
	}
	there := t.TempDir()
	git(t, there, "clone", "-q", other.as("pusher"), ".")
	s := mirrored(t, other, ca, func(m *Mirror) { m.Pull = true })
	var seen []string
	refuse := errors.New("1 finding")
	s.checkWith(func(_ context.Context, p Push) ([]string, error) {
		seen = append(seen, p.User)
		return []string{"a.yaml:1:1: no"}, refuse
	})
	if err := s.sync(t); err == nil || !strings.Contains(err.Error(), "is refused: 1 finding; a.yaml:1:1: no") || refsOf(t, s) != "" {
		t.Errorf("%v, %s", err, refsOf(t, s))
	}
	refuse = nil
	for i := range 2 {
		if err := s.sync(t); err != nil {
			t.Fatal(err)
		}
		if a, b := refsOf(t, s), refsOf(t, other); a != b {
			t.Errorf("here:\n%s\nthere:\n%s", a, b)
		}
		write(t, there, map[string]string{"a": strings.Repeat("x", i+1)})
		commit(t, there, "x")
		git(t, there, "tag", "-a", "-m", "x", "v"+strings.Repeat("1", i+1))
		git(t, there, "push", "-q", "--tags", "origin", "main")
	}
	if len(seen) < 3 || seen[0] != "mirror" || len(s.pushed) < 3 {
		t.Errorf("checked as %v, pushed %v", seen, s.pushed)
	}
	git(t, there, "reset", "-q", "--hard", "HEAD~2")
	write(t, there, map[string]string{"b": "1"})
	commit(t, there, "Rewritten")
	git(t, other.RepoDir("cluster"), "config", "receive.denyNonFastForwards", "false")
	git(t, there, "push", "-q", "--force", other.RepoDir("cluster"), "main")
	if err := s.sync(t); err == nil || !strings.Contains(err.Error(), "non-fast-forward") {
		t.Errorf("rewritten: %v", err)
	}
	s.mirrors[0].cfg.Force = true
	if err := s.sync(t); err != nil || refsOf(t, s) != refsOf(t, other) {
		t.Errorf("with force: %v", err)
	}
	s.verify(t)
}

// The pusher does not wait for a mirror that is away.
func TestMirrorAway(t *testing.T) {
	other, ca := withCA(t)
	s := mirrored(t, other, ca, func(m *Mirror) { m.Timeout = time.Millisecond })
	if _, err := s.Seed("cluster", guestbook, "Guestbook"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	clone := t.TempDir()
	git(t, clone, "clone", "-q", s.as("pusher"), ".")
	write(t, clone, map[string]string{"a": "1"})
	commit(t, clone, "One")
	git(t, clone, "push", "-q", "origin", "main")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := s.sync(t); !errors.Is(err, source.ErrUnreachable) || strings.Contains(err.Error(), "token") {
		t.Errorf("%v", err)
	}
}
