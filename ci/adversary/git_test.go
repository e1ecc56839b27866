package adversary

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/writ-os/writ/cmd/writ/cluster"
)

// Tokens of the users that a cluster knows.
const (
	pusherToken   = "token-of-the-pusher"
	strangerToken = "token-of-a-stranger"
	tenantToken   = "token-of-a-tenant"
)

const users = pusherToken + `,pusher,1,"writ:pushers"
` + strangerToken + `,stranger,2,"others"
` + tenantToken + `,tenant,3,"tenants"
`

const (
	remotePath   = "/git/" + cluster.RepositoryName + ".git"
	repositories = "/apis/writ.dev/v1alpha1/repositories/" + cluster.RepositoryName
	zeroSHA      = "0000000000000000000000000000000000000000"
)

// clone is a repository on a pusher's machine.
type clone struct {
	c   *target
	dir string
	n   int // of honest pushes
}

func (c *target) clone() *clone {
	c.Helper()
	g := &clone{c: c, dir: filepath.Join(c.TempDir(), "clone")}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		c.Fatal(err)
	}
	g.git("init", "-q", "-b", "main")
	g.git("remote", "add", "origin", "https://"+c.addr+remotePath)
	return g
}

func (g *clone) tryGit(args ...string) (string, error) { return g.tryGitIn("", args...) }

// tryGitIn runs git with an input.
func (g *clone) tryGitIn(in string, args ...string) (string, error) {
	cmd := exec.CommandContext(g.c.Context(), "git", args...)
	cmd.Dir, cmd.Stdin = g.dir, strings.NewReader(in)
	cmd.Env = append(os.Environ(), "GIT_SSL_NO_VERIFY=1", "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "HOME="+g.dir,
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.org", "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (g *clone) git(args ...string) string {
	g.c.Helper()
	out, err := g.tryGit(args...)
	if err != nil {
		g.c.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// as are the arguments of git by which it signs in.
func as(token string, args ...string) []string {
	return append([]string{"-c", "credential.helper=!f() { echo username=any; echo password=" + token + "; }; f"}, args...)
}

// commit commits files, by name and content.
func (g *clone) commit(files map[string]string) string {
	g.c.Helper()
	for name, content := range files {
		path := filepath.Join(g.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			g.c.Fatal(err)
		}
		if to, link := strings.CutPrefix(content, "link:"); link {
			if err := os.Symlink(to, path); err != nil {
				g.c.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			g.c.Fatal(err)
		}
	}
	g.git("add", "-A")
	g.git("commit", "-q", "--allow-empty", "-m", "Change")
	return g.git("rev-parse", "HEAD")
}

// push pushes what is committed; what is refused is taken back.
func (g *clone) push(token string) (string, bool) {
	g.c.Helper()
	out, err := g.tryGit(as(token, "push", "-q", "origin", "main")...)
	if err == nil {
		return out, true
	}
	if _, first := g.tryGit("rev-parse", "-q", "--verify", "HEAD~1"); first != nil {
		g.git("update-ref", "-d", "HEAD")
		return out, false
	}
	g.git("reset", "-q", "--hard", "HEAD~1")
	return out, false
}

// declares pushes files and waits until they are in force.
func (g *clone) declares(files map[string]string) {
	g.c.Helper()
	sha := g.commit(files)
	if out, ok := g.push(pusherToken); !ok {
		g.c.Fatalf("an honest push is refused: %s", out)
	}
	g.c.soon("in force: "+sha, func() bool {
		_, text := g.c.asAdmin().ask("GET", repositories, "")
		return strings.Contains(text, `"applied":"`+sha+`"`)
	})
}

// soon waits for what the cluster brings about.
func (c *target) soon(what string, ok func() bool) {
	c.Helper()
	for began := time.Now(); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			c.Fatalf("%s: not within a minute", what)
		}
	}
}

// send posts bytes to a service of the remote.
func (a *actor) send(service string, body io.Reader, header ...string) (code int, text string) {
	ctx, cancel := context.WithTimeout(a.c.Context(), 5*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.cfg.Host+remotePath+"/"+service, body)
	if err != nil {
		a.c.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-"+service+"-request")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // what there is of it
	return resp.StatusCode, resp.Status + ": " + string(b)
}

// pushes sends a pack for a new ref.
func (a *actor) pushes(ref, sha string, pack []byte) (text string, ok bool) {
	_, text = a.send("git-receive-pack", io.MultiReader(strings.NewReader(pkt(zeroSHA+" "+sha+" "+ref+"\x00report-status\n")+"0000"), bytes.NewReader(pack)))
	return text, strings.Contains(text, "ok "+ref)
}

// pkt is one packet of the protocol.
func pkt(payload string) string {
	n := strconv.FormatInt(int64(len(payload)+4), 16)
	return strings.Repeat("0", 4-len(n)) + n + payload
}

func (c *target) bearer(token string) *actor {
	c.Helper()
	return c.actor(&rest.Config{BearerToken: token})
}

// asAdmin has the break-glass credential.
func (c *target) asAdmin() *actor {
	c.Helper()
	if c.glass == nil {
		cfg, err := adminPair(c)
		if err != nil {
			c.Fatal(err)
		}
		c.glass = c.actor(cfg)
	}
	return c.glass
}
