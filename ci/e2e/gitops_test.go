//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// gitops is a cluster without containers: its one node is simulated, and says
// of every pod that it runs.
type gitops struct {
	*cluster
	hub  *hub
	repo string // clone of the cluster's own repository
	shop string // clone of the repository at the forge
	// mistake is the page of a refused commit, as others were told.
	mistake string
	http    *http.Client
	admin   string // flag of the break-glass credential
}

// TestGitOps shows what docs/repositories.md promises, on the real binary with
// stock git, kubectl and Chromium. The chapters build on each other, so the
// first that cannot be told to its end is the last.
func TestGitOps(t *testing.T) {
	g := newGitOps(t)
	for _, chapter := range []struct {
		name string
		tell func(*testing.T, *gitops)
	}{
		{"several repositories", gitopsSeveral},
		{"the remote is away", gitopsAway},
		{"credentials change", gitopsCredentials},
		{"push webhook", gitopsWebhook},
		{"notifications", gitopsNotify},
		{"kustomize, helm, policy", gitopsRender},
		{"custom resources", gitopsCustom},
		{"encrypted files", gitopsSecrets},
		{"a repository declares itself", gitopsItself},
		{"why, diff, plan, history", gitopsExplain},
		{"suspend and resume", gitopsSuspend},
		{"rollback", gitopsRollback},
		{"the page", gitopsPage},
		{"deletions", gitopsDeletes},
		{"a repository goes", gitopsGoes},
		{"versions, signatures, mirrors", gitopsSources},
		{"an external repository alone", gitopsExternal},
	} {
		told := false
		ok := t.Run(chapter.name, func(sub *testing.T) {
			g.t = sub
			chapter.tell(sub, g)
			told = true
		})
		if g.t = t; !ok && !told {
			return
		}
	}
}

func newGitOps(t *testing.T) *gitops {
	t.Helper()
	c := newCluster(t)
	g := &gitops{cluster: c, hub: c.newHub("acme/shop"), admin: "--kubeconfig=" + filepath.Join(c.data, "admin.kubeconfig")}
	c.write(filepath.Join(c.dir, "users"), viewerPassword+`,vera,1,"writ:viewers"`+"\n"+strangerPassword+",stan,2\n")
	g.serve()
	c.eventually(20*time.Second, "the server has written its credentials", func() error {
		_, err := os.Stat(filepath.Join(c.data, "admin.kubeconfig"))
		return err
	})
	c.start("agent", "agent", "--runtime", "fake", "--data-dir", c.data)
	c.ready()
	g.http = c.httpClient()
	g.hub.calls = g.http.Transport
	g.repo = c.clone("repo")
	g.unpack(g.repo, "start")
	g.publish(g.repo, "Begin")
	g.reaches("cluster", g.head(g.repo), v1alpha1.CommitHealthy)

	// What is secret comes from the server, not from Git.
	for name, data := range map[string][]string{
		"deploy-git":  {"username=" + hubUser, "password=" + hubPassword},
		"shop-git":    {"username=ann", "password=" + forgeToken},
		"shop-hook":   {"token=" + hookToken},
		"shop-status": {"token=" + forgeToken},
		"shop-told":   {"token=" + toldToken},
	} {
		args := []string{g.admin, "create", "secret", "generic", name, "-n", "writ", "--from-file=ca.crt=" + g.hub.ca}
		for _, d := range data {
			args = append(args, "--from-literal="+d)
		}
		g.kubectl(args...)
	}
	return g
}

// part is a test of its own, whose failure does not end the chapter.
func (g *gitops) part(name string, f func()) {
	t := g.t
	t.Run(name, func(sub *testing.T) {
		g.t = sub
		f()
	})
	g.t = t
}

func (g *gitops) serve() {
	g.start("server", "server", "--no-agent", "--data-dir", g.data, "--basic-auth-file", filepath.Join(g.dir, "users"), "--log-level", "debug",
		"--cluster-name", "home", "--external-url", origin)
}

// unpack writes the files of testdata/gitops/<name>.txtar into a clone. $HUB
// stands for the address of the hub.
func (g *gitops) unpack(dir, name string) {
	g.t.Helper()
	a, err := txtar.ParseFile(filepath.Join("testdata", "gitops", name+".txtar"))
	if err != nil {
		g.t.Fatal(err)
	}
	for _, f := range a.Files {
		g.write(filepath.Join(dir, f.Name), strings.ReplaceAll(string(f.Data), "$HUB", g.hub.url))
	}
}

// publish commits and pushes what a clone holds, and returns what git said.
func (g *gitops) publish(dir, message string) string {
	g.t.Helper()
	g.commit(dir, message)
	return g.push(dir)
}

// refuse commits what a clone holds, and returns what git said of the push that
// was refused; the commit is taken back, its files stay.
func (g *gitops) refuse(dir, message string) string {
	g.t.Helper()
	g.commit(dir, message)
	out := g.refused("git", "-C", dir, "push", "origin", "HEAD:main")
	g.must("git", "-C", dir, "reset", "-q", "--soft", "HEAD~1")
	return out
}

func (g *gitops) head(dir string) string {
	g.t.Helper()
	return strings.TrimSpace(g.must("git", "-C", dir, "rev-parse", "HEAD"))
}

func commitName(repository, sha string) string { return repository + "-" + sha[:12] }

// reaches waits until a commit is in one of the phases.
func (g *gitops) reaches(repository, sha string, phases ...v1alpha1.CommitPhase) *v1alpha1.Commit {
	g.t.Helper()
	var c v1alpha1.Commit
	g.eventually(30*time.Second, fmt.Sprintf("commit %s is %v", commitName(repository, sha), phases), func() error {
		c = v1alpha1.Commit{}
		if err := g.get(&c, "commits.writ.dev", commitName(repository, sha)); err != nil {
			return err
		}
		if slices.Contains(phases, c.Status.Phase) {
			return nil
		}
		b, _ := json.Marshal(c.Status)
		return fmt.Errorf("status: %s", b)
	})
	return &c
}

// seen says whether the cluster knows a commit at all.
func (g *gitops) seen(repository, sha string) bool {
	_, err := g.run(g.bin("kubectl"), "get", "commits.writ.dev", commitName(repository, sha))
	return err == nil
}

// remains checks again and again that something is so, for a while.
func (g *gitops) remains(d time.Duration, what string, so func() bool) {
	g.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if !so() {
			g.t.Fatalf("no more: %s", what)
		}
	}
}

// field reads one field of an object by a JSON path.
func (g *gitops) field(path string, object ...string) string {
	g.t.Helper()
	return g.kubectl(append([]string{g.admin, "get", "-o", "jsonpath=" + path}, object...)...)
}

// gone checks that an object is not there.
func (g *gitops) gone(object ...string) {
	g.t.Helper()
	if out, err := g.run(g.bin("kubectl"), append([]string{g.admin, "get"}, object...)...); err == nil || !strings.Contains(out, "NotFound") {
		g.t.Errorf("%v is there: %v\n%s", object, err, out)
	}
}
