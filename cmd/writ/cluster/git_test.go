package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writ-os/writ/ci/freeport"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// gitServer is a control plane that serves the built-in remote, and a
// repository that pushes to it.
type gitServer struct {
	*ControlPlane
	*testing.T
	dir   string
	clone string
}

// tokens are the users of the test.
const tokens = `t1,pusher,1,"writ:pushers"
t2,ann,2,"web"
t3,platform,3,"platform"
`

func startGit(t *testing.T) *gitServer {
	t.Helper()
	dir := t.TempDir()
	s := &gitServer{T: t, dir: dir, clone: filepath.Join(dir, "clone")}
	s.write(dir, "tokens.csv", tokens)
	cfg := Config{DataDir: filepath.Join(dir, "data"), Listen: freeport.Local(t), NodeName: "n", Log: slog.New(slog.DiscardHandler)}
	cfg.API.TokenFile = filepath.Join(dir, "tokens.csv")
	if testing.Verbose() {
		cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	s.ControlPlane = NewControlPlane(cfg)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.ControlPlane.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-s.Ready():
	case err := <-done:
		done <- err
		t.Fatal(err)
	}
	s.git(dir, "init", "-q", "-b", "main", s.clone)
	s.git(s.clone, "remote", "add", "origin", cfg.Remote())
	return s
}

// as is a push by who has a token, which Git knows as a password.
func as(token string) []string {
	return []string{"-c", "credential.helper=!f() { echo username=any; echo password=" + token + "; }; f", "push", "-q", "origin", "main"}
}

func (s *gitServer) write(dir, name, content string) {
	s.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		s.Fatal(err)
	}
}

func (s *gitServer) tryGit(dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(s.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_SSL_NO_VERIFY=1", "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "HOME="+s.dir,
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.org", "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (s *gitServer) git(dir string, args ...string) string {
	s.Helper()
	out, err := s.tryGit(dir, args...)
	if err != nil {
		s.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// commit commits files, by name and content, and returns the commit.
func (s *gitServer) commit(dir string, files ...string) string {
	s.Helper()
	for i := 0; i < len(files); i += 2 {
		s.write(dir, files[i], files[i+1])
	}
	s.git(dir, "add", "-A")
	s.git(dir, "commit", "-q", "-m", "Change "+files[0])
	return s.git(dir, "rev-parse", "HEAD")
}

// accepted pushes what is committed and waits until it is in force.
func (s *gitServer) accepted(push ...string) string {
	s.Helper()
	s.git(s.clone, push...)
	sha := s.git(s.clone, "rev-parse", "HEAD")
	s.inForce(sha)
	return sha
}

func (s *gitServer) inForce(sha string) {
	s.Helper()
	s.soon("in force: "+sha, func() bool { return s.repository().Status.Applied == sha })
}

// refused wants a push to be refused, and takes the commit back.
func (s *gitServer) refused(why string, push ...string) {
	s.Helper()
	if out, err := s.tryGit(s.clone, push...); err == nil || !strings.Contains(out, why) {
		s.Errorf("%v: %v, %s\nwant %s", push, err, out, why)
	}
	s.git(s.clone, "reset", "-q", "--hard", "HEAD~1")
}

func (s *gitServer) repository() *v1alpha1.Repository {
	repo, ok := client.Cached[*v1alpha1.Repository](s.registry.Cache(), schema.Key{Name: RepositoryName})
	if !ok {
		return &v1alpha1.Repository{}
	}
	return repo
}

// soon polls what other goroutines and processes bring about. It is below the
// interval of a mirror, which is a minute.
func (s *gitServer) soon(what string, ok func() bool) {
	s.Helper()
	begin := time.Now()
	for ; !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begin) > 30*time.Second {
			s.Fatalf("%s: not within 30 s; the status is %+v", what, s.repository().Status)
		}
	}
	s.Logf("%s: after %s", what, time.Since(begin).Round(time.Millisecond))
}

func configMap(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: default}\ndata: {k: %q}\n", name, value)
}

// declared is the manifest of the Repository.
func declared(spec string) string {
	return "apiVersion: writ.dev/v1alpha1\nkind: Repository\nmetadata: {name: cluster}\nspec:\n  url: builtin\n" + spec
}

// elsewhere is a repository on another host, that git itself serves.
type elsewhere struct {
	dir, url string
	away     atomic.Bool
}

func (s *gitServer) elsewhere(name string) *elsewhere {
	s.Helper()
	b := &elsewhere{dir: filepath.Join(s.dir, name+".git")}
	s.git(s.dir, "init", "-q", "--bare", "-b", "main", b.dir)
	s.git(b.dir, "config", "http.receivepack", "true")
	backend := &cgi.Handler{Path: filepath.Join(s.git(s.dir, "--exec-path"), "git-http-backend"), Env: []string{"GIT_PROJECT_ROOT=" + s.dir, "GIT_HTTP_EXPORT_ALL=1"}}
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, password, _ := req.BasicAuth()
		switch {
		case b.away.Load():
			http.Error(w, "closed for today", http.StatusBadGateway)
		case password != "secret":
			w.Header().Set("WWW-Authenticate", "Basic")
			http.Error(w, "who are you?", http.StatusUnauthorized)
		default:
			backend.ServeHTTP(w, req)
		}
	}))
	s.Cleanup(ts.Close)
	b.url = ts.URL + "/" + name + ".git"
	return b
}
