//go:build e2e

package e2e

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// gitopsExplain: what people ask of the cluster with a viewer's rights.
func gitopsExplain(t *testing.T, g *gitops) {
	writ := func(args ...string) string { return g.must(g.bin("writ"), args...) }
	sha := g.head(g.shop)[:7]
	contains(t, "writ why of a field", writ("why", "deployment/web.spec.replicas", "-n", "shop", "--repo", g.shop), "Deployment/shop/web", "web.yaml:5", "replicas: 5", "Five", "Jane")
	contains(t, "writ why of an object", writ("why", "deployment/web", "-n", "shop"), "web.yaml:1", "(repository shop)", sha, "Anywhere")
	contains(t, "writ why of what Git does not declare", writ("why", "configmap/kube-root-ca.crt", "-n", "shop"), "is not declared in Git")

	history := writ("history", "--repository", "shop")
	lines := strings.Split(strings.TrimSpace(history), "\n")
	if len(lines) != 9 { // head, and One, Two, Three, Version 2, A mistake, Five, Nowhere, Anywhere
		t.Errorf("the history has %d lines", len(lines))
	}
	for i, want := range []string{`^COMMIT `, `^` + sha + ` .* Healthy .* \+0 ~1 -0 .* Jane .* Anywhere$`, ` Superseded .* Nowhere$`, ` Healthy .* Five$`, ` Failed \(Refused\) .* A mistake$`} {
		if i < len(lines) && !regexp.MustCompile(want).MatchString(lines[i]) {
			t.Errorf("line %d of the history is not like %s", i, want)
		}
	}
	if t.Failed() {
		t.Log(history)
	}

	if out := writ("diff", "--repository", "shop", "--repo", g.shop); strings.Contains(out, "Deployment") {
		t.Errorf("writ diff finds something:\n%s", out)
	}
	two := g.refused(g.bin("writ"), "diff", "HEAD~3", "HEAD", "--repository", "shop", "--repo", g.shop)
	contains(t, "writ diff of two commits", two, "~ Deployment/shop/web", "spec.replicas: 4 -> 5")
	drifted(t, g)

	g.edit(filepath.Join(g.shop, "web.yaml"), "replicas: 5", "replicas: 6")
	g.write(filepath.Join(g.shop, "extra.yaml"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra, namespace: shop}\n")
	contains(t, "writ plan", writ("plan", g.shop, "--repository", "shop"), "~ Deployment/shop/web ", "web.yaml:1", "spec.replicas: 5 -> 6", "+ ConfigMap/shop/extra ", "extra.yaml:1", "1 to create, 1 to change, 0 to delete")
	contains(t, "writ plan without a cluster", writ("plan", g.shop, "--base", "HEAD", "-o", "markdown", "--kubeconfig", "/nowhere"), "Deployment/shop/web", "spec.replicas", "extra")
	contains(t, "writ plan of the wrong repository", g.refused(g.bin("writ"), "plan", g.shop), "shop", "web.yaml:1")
	g.edit(filepath.Join(g.shop, "web.yaml"), "replicas: 6", "replicas: six")
	contains(t, "writ plan of a mistake", g.refused(g.bin("writ"), "plan", g.shop, "--repository", "shop"), "web.yaml:5:13: spec.replicas: ")
	g.must("git", "-C", g.shop, "clean", "-qfd")
	g.must("git", "-C", g.shop, "reset", "-q", "--hard")
	contains(t, "writ revert", writ("revert", "HEAD~2", "--repository", "shop", "--repo", g.shop), "git revert", "spec.replicas: 5 -> 4")
}

// drifted: what is ignored may differ, and writ diff says so.
func drifted(t *testing.T, g *gitops) {
	file := filepath.Join(g.repo, "repositories/shop.yaml")
	g.edit(file, "  interval: 1h\n", "  interval: 1h\n  ignore: [{kind: Deployment, fields: [/spec/paused]}]\n")
	g.publish(g.repo, "Who pauses, pauses")
	g.reaches("cluster", g.head(g.repo), v1alpha1.CommitHealthy)
	before := g.field("{.status.drifted}", "repository/shop")
	g.kubectl(g.admin, "scale", "deployment/web", "-n", "shop", "--replicas=1")
	g.eventually(10*time.Second, "the drift is put back and told of", func() error {
		got := g.field("{.spec.replicas}", "deployment/web", "-n", "shop") + g.field("{.status.drifted}", "repository/shop")
		if !strings.HasPrefix(got, "5") || !strings.Contains(got, "Deployment/shop/web") {
			return fmt.Errorf("it is %s; it was %s", got, before)
		}
		return nil
	})
	contains(t, "writ status", g.must(g.bin("writ"), "status", "--repository", "shop"), "Deployment/shop/web", "spec.replicas")
}

// gitopsSuspend: following is stopped and resumed by commits, which writ writes.
func gitopsSuspend(t *testing.T, g *gitops) {
	patch := filepath.Join(g.dir, "suspend.patch")
	change := func(verb string) {
		g.write(patch, g.must(g.bin("writ"), verb, "shop", "--repo", g.repo))
		g.must("git", "-C", g.repo, "apply", patch)
		g.publish(g.repo, verb+" the shop")
		g.reaches("cluster", g.head(g.repo), v1alpha1.CommitHealthy)
	}
	change("suspend")
	g.edit(filepath.Join(g.shop, "web.yaml"), "replicas: 5", "replicas: 2")
	g.publish(g.shop, "Two again")
	g.remains(2*time.Second, "nothing is read", func() bool {
		return g.field("{.spec.replicas}", "deployment/web", "-n", "shop") == "5"
	})
	contains(t, "writ status", g.must(g.bin("writ"), "status", "--repository", "shop"), "uspended")
	began := time.Now()
	change("resume")
	c := g.reaches("shop", g.head(g.shop), v1alpha1.CommitHealthy)
	t.Logf("push of the resumption to applied: %v", c.Status.AppliedTime.Sub(began).Round(time.Millisecond))
}

// gitopsRollback: a commit that does not become healthy is taken back, and the
// next one enters.
func gitopsRollback(t *testing.T, g *gitops) {
	g.edit(filepath.Join(g.repo, "repositories/shop.yaml"), "  interval: 1h\n", "  interval: 1h\n  rollback: {after: 2s}\n")
	g.publish(g.repo, "Roll the shop back")
	g.reaches("cluster", g.head(g.repo), v1alpha1.CommitHealthy)
	good := g.head(g.shop)

	file := filepath.Join(g.shop, "web.yaml")
	g.edit(file, "nodeSelector: {}", "nodeSelector: {disk: none}")
	g.publish(g.shop, "Nowhere again")
	bad := g.head(g.shop)
	g.reaches("shop", bad, v1alpha1.CommitFailed)
	g.eventually(10*time.Second, "the commit is rolled back", func() error {
		if got := g.field("{.status.rolledBackTo} {.status.message}", "commits.writ.dev", commitName("shop", bad)); !strings.HasPrefix(got, good) {
			return fmt.Errorf("to %q", got)
		}
		return nil
	})
	if got := g.field("{.spec.template.spec.nodeSelector}", "deployment/web", "-n", "shop"); got != "" && got != "{}" {
		t.Errorf("the node selector is %s", got)
	}
	g.kubectl("rollout", "status", "deployment/web", "-n", "shop", "--timeout=10s")
	contains(t, "writ history", g.must(g.bin("writ"), "history", "--repository", "shop"), "Failed (back to "+good[:7]+")")
	status, err := g.run(g.bin("writ"), "status", "--repository", "shop")
	if err == nil {
		t.Error("writ status says that all is well")
	}
	contains(t, "writ status", status, bad[:7], good[:7], "olled back")
	contains(t, "events", g.kubectl("get", "events", "-A"), "RolledBack")
	g.told(bad, []string{"commit.applied", "commit.failed", "commit.rolledback"}, []string{"pending", "failure"})

	// That the shop is not well holds up nobody else.
	g.write(filepath.Join(g.repo, "apps/other.yaml"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other, namespace: apps}\n")
	g.publish(g.repo, "Something else")
	g.part("another repository meanwhile", func() { g.reaches("cluster", g.head(g.repo), v1alpha1.CommitHealthy) })

	// It is not tried again; its fix is.
	g.edit(file, "nodeSelector: {disk: none}", "nodeSelector: {}")
	g.edit(file, "web:v2", "web:v3")
	g.publish(g.shop, "Version 3")
	g.reaches("shop", g.head(g.shop), v1alpha1.CommitHealthy)
	g.told(g.head(g.shop), []string{"commit.applied", "commit.healthy"}, []string{"pending", "success"})
}

// gitopsItself: a commit of a repository that declares itself is judged by what
// it declares, and not by pushes that are refused meanwhile.
func gitopsItself(t *testing.T, g *gitops) {
	itself := filepath.Join(g.repo, "repositories/cluster.yaml")
	g.edit(itself, "  url: builtin\n", "  url: builtin\n  rollback: {after: 4s}\n")
	g.publish(g.repo, "Roll back")
	g.reaches("cluster", g.head(g.repo), v1alpha1.CommitHealthy)
	g.unpack(g.repo, "slow")
	g.publish(g.repo, "A Deployment that waits for its node")
	sha := g.head(g.repo)
	g.reaches("cluster", sha, v1alpha1.CommitApplied)
	bad := filepath.Join(g.repo, "apps/bad.yaml")
	g.write(bad, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: BAD, namespace: apps}\n")
	g.refuse(g.repo, "A mistake of somebody else")
	g.must("git", "-C", g.repo, "rm", "-qf", "apps/bad.yaml")
	g.kubectl(g.admin, "label", "node", "node-0", "speed=slow")
	g.part("the commit is healthy", func() {
		c := g.reaches("cluster", sha, v1alpha1.CommitHealthy, v1alpha1.CommitFailed)
		if c.Status.Phase != v1alpha1.CommitHealthy {
			g.t.Errorf("it is %s: %s %+v", c.Status.Phase, c.Status.Message, c.Status.Unhealthy)
		}
	})
	// It may also suspend itself, and goes on when it says so no more.
	g.edit(itself, "  rollback: {after: 4s}\n", "  suspend: true\n")
	g.publish(g.repo, "Hold still")
	g.reaches("cluster", g.head(g.repo), v1alpha1.CommitHealthy)
	g.edit(filepath.Join(g.repo, "apps/moving.yaml"), "by: cluster", "by: nobody")
	g.publish(g.repo, "Nothing is read")
	g.remains(time.Second, "nothing is read", func() bool { return g.field("{.data.by}", "configmap/moving", "-n", "apps") == "cluster" })
	g.edit(filepath.Join(g.repo, "apps/moving.yaml"), "by: nobody", "by: cluster")
	g.edit(itself, "  suspend: true\n", "")
	g.publish(g.repo, "Do not roll back")
	g.reaches("cluster", g.head(g.repo), v1alpha1.CommitHealthy)
}

// gitopsGoes: a Repository that is deleted leaves its objects where they are.
func gitopsGoes(t *testing.T, g *gitops) {
	uid := g.field("{.metadata.uid}", "configmap/settings", "-n", "apps")
	g.must("git", "-C", g.repo, "rm", "-q", "repositories/deploy.yaml")
	contains(t, "git push", g.publish(g.repo, "Follow deploy no more"), "remote: - Repository/deploy")
	g.reaches("cluster", g.head(g.repo), v1alpha1.CommitHealthy)
	g.eventually(10*time.Second, "nobody declares its objects", func() error {
		if out := g.must(g.bin("writ"), "why", "configmap/settings", "-n", "apps"); !strings.Contains(out, "is not declared in Git") {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	g.remains(time.Second, "its objects are there", func() bool {
		return g.field("{.metadata.uid}", "configmap/settings", "-n", "apps") == uid
	})
	if out := g.kubectl(g.admin, "delete", "configmap/settings", "-n", "apps"); strings.Contains(out, "Warning") {
		t.Errorf("deleting what nobody declares: %s", out)
	}
}

// gitopsDeletes: much is deleted only by who says so.
func gitopsDeletes(t *testing.T, g *gitops) {
	g.must("git", "-C", g.repo, "rm", "-qr", "blog", "mail", "charts", "custom", "apps", "shop", "repositories/shop.yaml", "repositories/deploy.yaml")
	contains(t, "push that deletes much", g.refuse(g.repo, "Away with them"), "without a word 20 % may go", "Writ-Allow-Deletes: true")
	g.must("git", "-C", g.repo, "rm", "-qr", ".", ":!README.md")
	contains(t, "push that deletes everything", g.refuse(g.repo, "Away with it all"), "declares no object at all", "Writ-Allow-Deletes: true")
	g.must("git", "-C", g.repo, "reset", "-q", "--hard")
	if got := g.field("{.spec.replicas}", "deployment/home-mail", "-n", "apps"); got != "3" {
		t.Errorf("mail has %s replicas", got)
	}
	g.must("git", "-C", g.repo, "rm", "-qr", "blog", "mail", "charts", "custom/nightly.yaml")
	contains(t, "push that deletes a little", g.publish(g.repo, "Away with three"), "remote: - Deployment/apps/home-blog", "remote: - Backup/apps/nightly")
	g.reaches("cluster", g.head(g.repo), v1alpha1.CommitHealthy)
	g.eventually(10*time.Second, "they are gone", func() error {
		if out := g.kubectl(g.admin, "get", "deployments,pods,backups", "-n", "apps", "-o", "name"); strings.Contains(out, "home-") || strings.Contains(out, "nightly") {
			return fmt.Errorf("still there:\n%s", out)
		}
		return nil
	})
}

// gitopsExternal: a second cluster follows a repository of somebody else from
// its first start, named by flags.
func gitopsExternal(t *testing.T, g *gitops) {
	t.Setenv("WRIT_REPO_PASSWORD", hubPassword)
	data := filepath.Join(g.dir, "other")
	g.start("other", "server", "--no-agent", "--listen", "127.0.0.1:7443", "--data-dir", data, "--interval", "1s",
		"--repo", g.hub.url+"/plain/deploy.git", "--repo-ca", g.hub.ca, "--repo-user", hubUser)
	kubeconfig := filepath.Join(data, "viewer.kubeconfig")
	clone := filepath.Join(g.dir, "clone-deploy")
	status := func(want ...string) {
		g.t.Helper()
		g.eventually(20*time.Second, "the other cluster says "+strings.Join(want, ", "), func() error {
			out, err := g.run(g.bin("writ"), "status", "--kubeconfig", kubeconfig)
			if (err != nil) != slices.Contains(want, "Refused") { // scripts notice by the exit code
				return fmt.Errorf("it ended with %v: %s", err, out)
			}
			for _, w := range want {
				if !strings.Contains(out, w) {
					return fmt.Errorf("without %s: %s", w, out)
				}
			}
			return nil
		})
	}
	status(g.head(clone)[:7], "Refused", "apps") // there is no such namespace
	g.write(filepath.Join(clone, "namespace.yaml"), "apiVersion: v1\nkind: Namespace\nmetadata: {name: apps}\n")
	g.publish(clone, "Bring the namespace")
	status(g.head(clone)[:7], "Healthy")
	contains(t, "kubectl get", g.kubectl("--kubeconfig", kubeconfig, "get", "configmap", "-n", "apps"), "settings")
	g.refused("git", "clone", "-q", "--config", "include.path="+filepath.Join(data, "pusher.gitconfig"), "https://127.0.0.1:7443/git/cluster.git", filepath.Join(g.dir, "none"))
}
