package source

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// served is a repository that a server has, a working tree that pushes to it,
// and the SHA of its first commits.
func served(t testing.TB) (w *work, bare string, first string) {
	w = newWork(t)
	bare = w.bare()
	w.commit("a.yaml", "a: 0\n", "apps/web.yaml", "web\n")
	first = w.commit("a.yaml", "a: 1\n")
	w.push("main")
	return w, bare, first
}

func TestCloneFollowsTheBranch(t *testing.T) {
	w, bare, first := served(t)
	web := serveHTTP(t, bare)
	host := serveSSH(t)
	for name, cfg := range map[string]Config{
		"https":      web.config(t),
		"token":      {URL: web.URL + "/repo.git", Dir: t.TempDir(), Auth: Auth{BearerToken: password, CA: web.ca()}},
		"in the URL": {URL: strings.Replace(web.URL, "://", "://ann:"+password+"@", 1) + "/repo.git", Dir: t.TempDir(), Auth: Auth{CA: web.ca()}},
		"ssh":        {URL: "ssh://" + host.addr + bare, Dir: t.TempDir(), Auth: Auth{SSHKey: host.key, KnownHosts: host.known}},
	} {
		t.Run(name, func(t *testing.T) {
			w.git("push", "-q", "--force", "origin", first+":main")
			w.git("reset", "-q", "--hard", first)
			s := New(cfg)
			defer s.Close()
			c := fetched(t, s, first)
			if c.Rewritten || c.Parent == "" {
				t.Errorf("Commit = %+v", c)
			}
			if _, err := s.Commit(c.Parent); !errors.Is(err, ErrMissing) {
				t.Errorf("the clone is not shallow: Commit(parent) = %v", err)
			}
			w.commit("b.yaml", "b\n")
			next := w.commit("a.yaml", "a: 2\n")
			w.push("main")
			if c := fetched(t, s, next); c.Rewritten {
				t.Error("Rewritten = true after a push")
			}
			if diff := cmp.Diff([]string{"a.yaml a: 2\n", "apps/web.yaml web\n", "b.yaml b\n"}, files(t, s, next)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			changes, err := s.Diff(first, next)
			if err != nil || len(changes) != 2 {
				t.Errorf("Diff = %+v, %v", changes, err)
			}
			fetched(t, s, next)
		})
	}
}

// Files of commits before the clone's first are not here; a commit that brings
// them back, or goes back to them, must bring them along.
func TestOldFilesComeBack(t *testing.T) {
	for _, bitmaps := range []bool{false, true} {
		t.Run(fmt.Sprintf("bitmaps=%v", bitmaps), func(t *testing.T) {
			w, bare, first := served(t)
			if bitmaps { // with them a server knows all that an ancestor ever had
				w.git("-C", bare, "repack", "-q", "-a", "-d", "-b")
			}
			s := New(serveHTTP(t, bare).config(t))
			defer s.Close()
			fetched(t, s, first)
			reverted := w.commit("a.yaml", "a: 0\n")
			w.push("main")
			if got := files(t, s, fetched(t, s, reverted).SHA); got[0] != "a.yaml a: 0\n" {
				t.Errorf("files = %q", got)
			}
			base := w.git("rev-parse", first+"~1")
			w.git("push", "-q", "--force", "origin", base+":main")
			for range 2 {
				if c := fetched(t, s, base); !c.Rewritten {
					t.Error("Rewritten = false after going back")
				}
			}
			if got := files(t, s, base); got[0] != "a.yaml a: 0\n" {
				t.Errorf("files = %q", got)
			}
			w.git("checkout", "-q", "--orphan", "fresh")
			orphan := w.commit("a.yaml", "new\n")
			w.push("--force", "fresh:main")
			if c := fetched(t, s, orphan); !c.Rewritten {
				t.Error("Rewritten = false after a new history")
			}
			if changes, err := s.Diff(base, orphan); err != nil || len(changes) != 1 {
				t.Errorf("Diff = %+v, %v", changes, err)
			}
		})
	}
}

func TestRemoteSaysWhatIsWrong(t *testing.T) {
	w, bare, first := served(t)
	web := serveHTTP(t, bare)
	host := serveSSH(t)
	_, otherKey := newKey(t)
	other := serveSSH(t)
	closed := must(net.Listen("tcp", "127.0.0.1:0"))
	closed.Close()
	overSSH := Config{URL: "ssh://" + host.addr + bare, Auth: Auth{SSHKey: host.key, KnownHosts: host.known}}
	for _, tt := range []struct {
		name   string
		cfg    Config
		change func(*Config)
		kind   error
		words  string
	}{
		{"wrong password", web.config(t), func(c *Config) { c.Auth.Password = "not-" + password }, ErrCredentials, "check user, password or token"},
		{"no password", web.config(t), func(c *Config) { c.Auth = Auth{CA: c.Auth.CA} }, ErrCredentials, "token"},
		{"no CA", web.config(t), func(c *Config) { c.Auth.CA = nil }, ErrUnreachable, "give its CA"},
		{"no such repository", web.config(t), func(c *Config) { c.URL = web.URL + "/other.git" }, ErrNoRepo, "other.git"},
		{"no such branch", web.config(t), func(c *Config) { c.Branch = "prod" }, ErrNoBranch, "there is main"},
		{"no such folder", web.config(t), func(c *Config) { c.Path = "prod" }, ErrNoPath, "prod"},
		{"nobody there", web.config(t), func(c *Config) { c.URL = "https://ann:" + password + "@" + closed.Addr().String() + "/x" }, ErrUnreachable, "refused"},
		{"no such scheme", web.config(t), func(c *Config) { c.URL = "git://" + password + "@host/x" }, ErrConfig, "git://"},
		{"no URL", web.config(t), func(c *Config) { c.URL = "https://ann:" + password + "@%zz/" }, ErrConfig, "https://host/path"},
		{"bad CA", web.config(t), func(c *Config) { c.Auth.CA = []byte(password) }, ErrConfig, "PEM"},
		{"bad client certificate", web.config(t), func(c *Config) { c.Auth.ClientKey = []byte(password) }, ErrConfig, "PEM"},
		{"ssh: wrong key", overSSH, func(c *Config) { c.Auth.SSHKey = otherKey }, ErrCredentials, "public half"},
		{"ssh: no key", overSSH, func(c *Config) { c.Auth.SSHKey = nil }, ErrCredentials, "SSH key"},
		{"ssh: bad key", overSSH, func(c *Config) { c.Auth.SSHKey = []byte(password) }, ErrConfig, "SSH key"},
		{"ssh: other host key", overSSH, func(c *Config) {
			c.Auth.KnownHosts = []byte(strings.ReplaceAll(string(other.known), portOf(other.addr), portOf(host.addr)))
		}, ErrHostKey, "another host key"},
		{"ssh: unknown host", overSSH, func(c *Config) { c.Auth.KnownHosts = other.known }, ErrHostKey, "known_hosts"},
		{"ssh: no such repository", overSSH, func(c *Config) { c.URL = "ssh://" + host.addr + "/it's not there" }, ErrNoRepo, "there is no repository"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("SSH_AUTH_SOCK", "")
			cfg := tt.cfg
			cfg.Dir = t.TempDir()
			tt.change(&cfg)
			s := New(cfg)
			defer s.Close()
			fails(t, s, tt.kind, tt.words)
			if _, err := s.Fetch(t.Context()); strings.Contains(err.Error(), password) {
				t.Errorf("the error has the secret in it: %v", err)
			}
		})
	}
	t.Run("emptied", func(t *testing.T) {
		s := New(web.config(t))
		defer s.Close()
		fetched(t, s, first)
		w.git("-C", bare, "config", "receive.denyDeleteCurrent", "ignore")
		w.push(":main")
		fails(t, s, ErrEmpty, "no commits")
		overSSH.Dir = t.TempDir()
		o := New(overSSH)
		defer o.Close()
		fails(t, o, ErrEmpty, "no commits")
		if got := files(t, s, first); len(got) != 2 {
			t.Errorf("files of the commit that was fetched = %q", got)
		}
	})
}

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// A host that accepts and then says nothing must not hold a fetch.
func TestSilentHost(t *testing.T) {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	host := serveSSH(t)
	for _, url := range []string{"http://" + l.Addr().String() + "/x", "ssh://" + l.Addr().String() + "/x"} {
		s := New(Config{URL: url, Dir: t.TempDir(), Auth: Auth{SSHKey: host.key, KnownHosts: host.known}})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if _, err := s.Fetch(ctx); !errors.Is(err, ErrUnreachable) {
			t.Errorf("Fetch of %s = %v", url, err)
		}
		cancel()
		s.Close()
	}
}
