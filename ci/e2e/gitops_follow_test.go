//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/writ-os/writ/reconciler/forge"
	"github.com/writ-os/writ/reconciler/webhook"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// hookToken signs the webhooks of the forge.
const hookToken = "hook-token-5d9"

// gitopsSeveral: a repository declares another; an object belongs to one of
// them, and changes hands without being deleted.
func gitopsSeveral(t *testing.T, g *gitops) {
	deploy := g.bare(g.hub, "deploy")
	g.unpack(deploy, "deploy")
	g.publish(deploy, "Two settings")
	g.unpack(g.repo, "several")
	contains(t, "git push", g.publish(g.repo, "Follow deploy"), "remote: + Repository/deploy  repositories/deploy.yaml:1")
	g.reaches("deploy", g.head(deploy), v1alpha1.CommitHealthy)
	if got := g.field("{.data.colour}", "configmap/settings", "-n", "apps"); got != "blue" {
		t.Errorf("the colour is %q", got)
	}
	contains(t, "kubectl get repositories", g.kubectl("get", "repositories"), "deploy", "cluster")
	contains(t, "kubectl delete", g.refused(g.bin("kubectl"), "delete", "configmap/settings", "-n", "apps"), "edit settings.yaml:1 (repository deploy")
	contains(t, "writ why", g.must(g.bin("writ"), "why", "configmap/settings", "-n", "apps"), "settings.yaml:1", "(repository deploy)", "Two settings")
	contains(t, "writ status", g.must(g.bin("writ"), "status", "--repository", "deploy"), "repository  deploy", "/plain/deploy.git", "Healthy")

	// Two may not declare the same, unless one says that it takes it over.
	g.unpack(g.repo, "theirs")
	contains(t, "push of what deploy declares", g.refuse(g.repo, "Mine"), "remote: apps/moving.yaml:1:1: ", "deploy", "writ.dev/move-from: deploy")
	uid := g.field("{.metadata.uid}", "configmap/moving", "-n", "apps")
	g.edit(filepath.Join(g.repo, "apps/moving.yaml"), "  namespace: apps\n", "  namespace: apps\n  annotations: {writ.dev/move-from: deploy}\n")
	contains(t, "push of a move", g.publish(g.repo, "Take it over"), "ConfigMap/apps/moving")
	g.reaches("cluster", g.head(g.repo), v1alpha1.CommitHealthy)
	ours := func() bool {
		return g.field("{.metadata.uid} {.data.by}", "configmap/moving", "-n", "apps") == uid+" cluster"
	}
	g.remains(1500*time.Millisecond, "the object is the same, and as the cluster's repository has it", ours)
	g.must("git", "-C", deploy, "rm", "-q", "moving.yaml")
	g.publish(deploy, "Let go")
	g.reaches("deploy", g.head(deploy), v1alpha1.CommitHealthy)
	g.remains(time.Second, "the object is the same after the other has let go", ours)
	contains(t, "writ why of what has moved", g.must(g.bin("writ"), "why", "configmap/moving", "-n", "apps"), "apps/moving.yaml:1", "(repository cluster)")
}

// gitopsAway: while the remote is away, also over a restart, what was applied
// is still looked after.
func gitopsAway(_ *testing.T, g *gitops) {
	g.hub.away.Store(true)
	g.eventually(20*time.Second, "the Repository says that its remote is away", g.ready("False", "503"))
	g.stop("server", syscall.SIGKILL)
	g.serve()
	g.eventually(20*time.Second, "the server is back", func() error {
		out, err := g.run(g.bin("kubectl"), "get", "--raw", "/readyz")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	uid := g.field("{.metadata.uid}", "configmap/settings", "-n", "apps")
	g.kubectl(g.admin, "delete", "configmap/settings", "-n", "apps")
	g.eventually(10*time.Second, "what was deleted by hand is back", func() error {
		out, err := g.run(g.bin("kubectl"), "get", "configmap/settings", "-n", "apps", "-o", "jsonpath={.metadata.uid}")
		if err == nil && out != uid {
			return nil
		}
		return fmt.Errorf("the UID was %s: %s", uid, out)
	})
	g.eventually(10*time.Second, "the Repository says so after the restart too", g.ready("False", "503"))
	g.hub.away.Store(false)
	g.eventually(40*time.Second, "the Repository is ready again", g.ready("True", ""))
}

// ready checks the condition of the Repository deploy.
func (g *gitops) ready(status, text string) func() error {
	return func() error {
		got := g.field(`{.status.conditions[?(@.type=="Ready")].status} {.status.conditions[?(@.type=="Ready")].message}`, "repository/deploy")
		if !strings.HasPrefix(got, status) || !strings.Contains(got, text) {
			return fmt.Errorf("%s", got)
		}
		return nil
	}
}

// gitopsCredentials: a new password is taken over when its Secret has it.
func gitopsCredentials(_ *testing.T, g *gitops) {
	password := func(p string) {
		g.hub.mu.Lock()
		defer g.hub.mu.Unlock()
		g.hub.password = p
	}
	password("another")
	g.eventually(20*time.Second, "the Repository says that its password is wrong", g.ready("False", "deploy.git"))
	g.kubectl(g.admin, "patch", "secret", "deploy-git", "-n", "writ", "-p", `{"stringData":{"password":"another"}}`)
	g.part("the new password is used", func() {
		g.eventually(20*time.Second, "the Repository is ready again", g.ready("True", ""))
	})
	password(hubPassword)
	g.kubectl(g.admin, "patch", "secret", "deploy-git", "-n", "writ", "-p", `{"stringData":{"password":"`+hubPassword+`"}}`)
	g.eventually(20*time.Second, "the Repository is ready as before", g.ready("True", ""))
}

// gitopsWebhook: who knows the secret has the repository read at once; nobody
// else has anything done.
func gitopsWebhook(t *testing.T, g *gitops) {
	g.shop = g.forged(g.hub, "acme/shop")
	g.unpack(g.shop, "shop")
	g.publish(g.shop, "One")
	g.unpack(g.repo, "webhook")
	g.publish(g.repo, "Follow the shop")
	g.reaches("shop", g.head(g.shop), v1alpha1.CommitHealthy)

	g.edit(filepath.Join(g.shop, "web.yaml"), "replicas: 1", "replicas: 2")
	g.publish(g.shop, "Two")
	sha := g.head(g.shop)
	hook := forge.Hook{Repository: "acme/shop", URL: "https://127.0.0.1:6443/hooks/shop", Provider: webhook.GitHub, Secret: hookToken}
	send := func(h forge.Hook, forget ...string) forge.Delivery {
		header, body := forge.Payload(h, "refs/heads/main", sha, time.Now())
		for _, f := range forget {
			header.Del(f)
		}
		return forge.Send(g.http, h, header, body)
	}
	wrong, other := hook, hook
	wrong.Secret, other.URL = "guessed", "https://127.0.0.1:6443/hooks/deploy"
	for name, got := range map[string]struct {
		forge.Delivery
		want int
	}{
		"a wrong secret":                {send(wrong), http.StatusUnauthorized},
		"no signature":                  {send(hook, "X-Hub-Signature-256"), http.StatusUnauthorized},
		"a repository without webhooks": {send(other), http.StatusNotFound},
	} {
		if got.Status != got.want || strings.Contains(got.Answer, hookToken) {
			t.Errorf("%s: %d %s, want %d", name, got.Status, got.Answer, got.want)
		}
	}
	g.remains(1500*time.Millisecond, "nothing has happened", func() bool { return !g.seen("shop", sha) })

	sent := time.Now()
	good := send(hook)
	if good.Status != http.StatusAccepted {
		t.Fatalf("the webhook: %d %s", good.Status, good.Answer)
	}
	g.quick("webhook", sent, g.reaches("shop", sha, v1alpha1.CommitApplied, v1alpha1.CommitHealthy))
	if again := forge.Send(g.http, hook, good.Header, good.Body); again.Status != http.StatusOK || !strings.Contains(again.Answer, "heard before") {
		t.Errorf("the same delivery again: %d %s", again.Status, again.Answer)
	}

	// From now on the forge calls by itself.
	g.hub.Hook(hook)
	g.edit(filepath.Join(g.shop, "web.yaml"), "replicas: 2", "replicas: 3")
	sent = time.Now()
	g.publish(g.shop, "Three")
	g.quick("push to the forge", sent, g.reaches("shop", g.head(g.shop), v1alpha1.CommitApplied, v1alpha1.CommitHealthy))
	if log, _ := os.ReadFile(g.log("server")); strings.Contains(string(log), hookToken) || !strings.Contains(string(log), "webhook refused") {
		t.Error("the log has the secret of the webhook, or says nothing of those that were refused")
	}
}

// quick checks that a commit was applied within a second of something.
func (g *gitops) quick(what string, since time.Time, c *v1alpha1.Commit) {
	g.t.Helper()
	took := c.Status.AppliedTime.Sub(since)
	g.t.Logf("%s to applied: %v", what, took.Round(time.Millisecond))
	if took > time.Second {
		g.t.Errorf("%s to applied took %v, want under a second", what, took)
	}
}

// gitopsNotify: every commit is told of to the end, to a webhook and a forge.
func gitopsNotify(t *testing.T, g *gitops) {
	// Of one that is on its way two things would be told.
	g.reaches("shop", g.head(g.shop), v1alpha1.CommitHealthy)
	g.unpack(g.repo, "notify")
	g.publish(g.repo, "Tell others of the shop")
	g.reaches("cluster", g.head(g.repo), v1alpha1.CommitHealthy)
	g.told(g.head(g.shop), []string{"commit.healthy"}, []string{"success"}) // the newest there is

	file := filepath.Join(g.shop, "web.yaml")
	g.edit(file, "web:v1", "web:v2")
	g.publish(g.shop, "Version 2")
	g.told(g.head(g.shop), []string{"commit.applied", "commit.healthy"}, []string{"pending", "success"})

	g.edit(file, "replicas: 3", "replica: 3")
	g.publish(g.shop, "A mistake")
	g.told(g.head(g.shop), []string{"commit.failed"}, []string{"failure"})
	_, e := g.hub.heard(g.head(g.shop))
	g.mistake = e.URL
	if s := g.hub.Statuses("acme/shop", e.SHA); e.Cluster != "home" || !strings.HasPrefix(e.URL, origin) || len(s) != 1 ||
		s[0].Context != "writ/home/shop" || s[0].TargetURL != e.URL || !strings.Contains(s[0].Description, "replicas") {
		t.Errorf("what was told of the mistake: %+v, %+v", e, s)
	}
	if len(e.Findings) != 1 || e.Findings[0].File != "web.yaml" || e.Findings[0].Line != 5 || e.Findings[0].Hint == "" || e.Author != "Jane <jane@example.com>" {
		t.Errorf("what was told of the mistake: %+v", e)
	}

	// Two commits of one push: the first was never looked at, and yet the forge
	// hears its end.
	g.edit(file, "replica: 3", "replicas: 4")
	g.commit(g.shop, "Four")
	first := g.head(g.shop)
	g.edit(file, "replicas: 4", "replicas: 5")
	g.publish(g.shop, "Five")
	g.told(g.head(g.shop), []string{"commit.applied", "commit.healthy"}, []string{"pending", "success"})
	g.part("two commits of one push", func() { g.told(first, nil, []string{"success"}) })

	// One that a newer one takes the place of before it is healthy.
	g.edit(file, "nodeSelector: {}", "nodeSelector: {disk: none}")
	g.publish(g.shop, "Nowhere")
	stuck := g.head(g.shop)
	g.reaches("shop", stuck, v1alpha1.CommitApplied)
	g.edit(file, "nodeSelector: {disk: none}", "nodeSelector: {}")
	g.publish(g.shop, "Anywhere")
	g.told(g.head(g.shop), []string{"commit.applied", "commit.healthy"}, []string{"pending", "success"})
	g.told(stuck, []string{"commit.applied", "commit.superseded"}, []string{"pending", "error"})
	g.hub.mu.Lock()
	defer g.hub.mu.Unlock()
	if len(g.hub.bad) > 0 {
		t.Errorf("the receiver complains: %v", g.hub.bad)
	}
}

// told waits until a commit was told of as it should be: the events of the
// webhook, and the states at the forge.
func (g *gitops) told(sha string, events, states []string) {
	g.t.Helper()
	g.eventually(20*time.Second, "commit "+sha[:7]+" is told of", func() error {
		heard, _ := g.hub.heard(sha)
		at := g.hub.states("acme/shop", sha)
		if !slices.Equal(heard, events) || !slices.Equal(at, states) {
			return fmt.Errorf("webhook %v, want %v; forge %v, want %v", heard, events, at, states)
		}
		return nil
	})
}
