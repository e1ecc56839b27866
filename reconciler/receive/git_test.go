package receive

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"go.uber.org/goleak"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/writ-os/writ/reconciler/sandbox"
)

func TestMain(m *testing.M) {
	if sandbox.Serve(killable(readThere)) {
		return
	}
	if dir := os.Getenv("RECEIVE_SERVE"); dir != "" {
		serveUntilKilled(dir)
	}
	if dir := os.Getenv("RECEIVE_LIVE"); dir != "" {
		liveUntilKilled(dir)
	}
	if dir := os.Getenv("RECEIVE_HOSTILE"); dir != "" {
		serveHostile(dir)
	}
	goleak.VerifyTestMain(m)
}

// server is a remote behind TLS. The user name of a request is its identity:
// pusher, viewer, or anything else for no one.
type server struct {
	*Remote
	url   string
	close func() // waits for the requests under way

	mu     sync.Mutex
	check  func(context.Context, Push) ([]string, error)
	pushed []string
}

// as returns the URL of the repository for a user.
func (s *server) as(name string) string {
	return strings.Replace(s.url, "https://", "https://"+name+":token@", 1) + "/git/cluster.git"
}

func (s *server) checkWith(f func(context.Context, Push) ([]string, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.check = f
}

func newServer(t testing.TB, change ...func(*Config)) *server {
	t.Helper()
	s := &server{}
	box := sandbox.New(sandbox.Config{})
	t.Cleanup(box.Close)
	cfg := Config{Dir: t.TempDir(), Names: []string{"cluster"}, Log: slog.New(slog.DiscardHandler), Sandbox: box}
	cfg.Check = func(ctx context.Context, p Push) ([]string, error) {
		s.mu.Lock()
		check := s.check
		s.mu.Unlock()
		if check == nil {
			return nil, nil
		}
		ordered()
		defer ordered()
		return check(ctx, p)
	}
	cfg.Pushed = func(repository, ref, sha string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		ordered()
		defer ordered()
		s.pushed = append(s.pushed, repository+" "+ref+" "+sha)
	}
	for _, c := range change {
		c(&cfg)
	}
	if commit := cfg.Commit; commit != nil {
		cfg.Commit = func(ctx context.Context, name string, refs map[string]string) (map[string]string, error) {
			ordered()
			defer ordered()
			return commit(ctx, name, refs)
		}
	}
	s.Remote = New(cfg)
	if err := s.Open(); err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewUnstartedServer(withUser(s.Remote))
	ts.EnableHTTP2 = true
	ts.StartTLS()
	t.Cleanup(ts.Close)
	s.close = ts.Close
	s.url = ts.URL
	return s
}

func withUser(h http.Handler) http.Handler {
	groups := map[string]string{"pusher": "writ:pushers", "viewer": "writ:viewers", "admin": user.SystemPrivilegedGroup}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if name, _, ok := req.BasicAuth(); ok && groups[name] != "" {
			u := &user.DefaultInfo{Name: name, Groups: []string{groups[name]}}
			req = req.WithContext(request.WithUser(req.Context(), u))
		}
		h.ServeHTTP(w, req)
	})
}

var order sync.Mutex

// ordered says that what a test does before it starts git is before what its
// server is called with, and that is before what the test does when git has ended:
// through another process the race detector does not see so.
func ordered() {
	order.Lock()
	defer order.Unlock()
}

// git runs git in a folder and returns what it printed.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	out, err := tryGit(t, dir, args...)
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

func tryGit(t testing.TB, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_SSL_NO_VERIFY=1", "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null", "HOME="+dir, "GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.org",
		"GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.org", "LC_ALL=C")
	ordered()
	out, err := cmd.CombinedOutput()
	ordered()
	return string(out), err
}

// write puts files into a work tree.
func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// commit commits everything in a work tree and returns the commit.
func commit(t testing.TB, dir, message string) string {
	t.Helper()
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-q", "-m", message)
	return git(t, dir, "rev-parse", "HEAD")
}

var guestbook = fstest.MapFS{
	"web/deployment.yaml": {Data: []byte("kind: Deployment\n")},
	"web/service.yaml":    {Data: []byte("kind: Service\n")},
	"README.md":           {Data: []byte("# Guestbook\n")},
}

// seeded starts a server with a first commit and a clone of it.
func seeded(t testing.TB, change ...func(*Config)) (s *server, clone string) {
	t.Helper()
	s = newServer(t, change...)
	if _, err := s.Seed("cluster", guestbook, "Guestbook"); err != nil {
		t.Fatal(err)
	}
	clone = filepath.Join(t.TempDir(), "clone")
	git(t, t.TempDir(), "clone", "-q", s.as("pusher"), clone)
	return s, clone
}

// verify has git look the repository of the server over.
func (s *server) verify(t testing.TB) {
	t.Helper()
	git(t, s.RepoDir("cluster"), "fsck", "--full", "--strict")
	left, err := os.ReadDir(filepath.Join(s.cfg.Dir, incoming))
	if err != nil || len(left) > 0 {
		t.Fatalf("left in quarantine: %v %v", left, err)
	}
}

func TestCloneAndPush(t *testing.T) {
	s, clone := seeded(t)
	if got := git(t, clone, "log", "--format=%an <%ae> %s"); got != "Writ <writ@localhost> Guestbook" {
		t.Fatalf("log: %s", got)
	}
	write(t, clone, map[string]string{"web/deployment.yaml": "kind: Deployment\nspec: {}\n"})
	sha := commit(t, clone, "Change")
	out := git(t, clone, "push", "origin", "main")
	if got := git(t, s.RepoDir("cluster"), "rev-parse", "main"); got != sha {
		t.Fatalf("main is %s, want %s\n%s", got, sha, out)
	}
	if want := fmt.Sprintf("[cluster refs/heads/main %s]", sha); fmt.Sprint(s.pushed) != want {
		t.Fatalf("pushed %v, want %s", s.pushed, want)
	}
	s.verify(t)
}
