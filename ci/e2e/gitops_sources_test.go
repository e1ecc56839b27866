//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/writ-os/writ/reconciler/forge"
	"github.com/writ-os/writ/reconciler/webhook"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// setting is a manifest whose only content is one value.
func setting(name, value string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", namespace: default}\ndata: {is: \"" + value + "\"}\n"
}

// is waits until a setting has a value.
func (g *gitops) is(name, value string) {
	g.t.Helper()
	g.eventually(20*time.Second, name+" is "+value, func() error {
		out, err := g.run(g.bin("kubectl"), "get", "configmap/"+name, "-o", "jsonpath={.data.is}")
		if err != nil || out != value {
			return fmt.Errorf("it is %q: %v", out, err)
		}
		return nil
	})
}

// gitopsSources: versions instead of a branch, hooks of other forges, a chat,
// signatures, and mirrors both ways.
func gitopsSources(t *testing.T, g *gitops) {
	lib := g.bare(g.hub, "lib")
	release := func(version string) string {
		g.write(filepath.Join(lib, "version.yaml"), setting("version", version))
		g.publish(lib, "Release "+version)
		g.must("git", "-C", lib, "tag", "v"+version)
		g.must("git", "-C", lib, "push", "-q", "origin", "v"+version)
		return g.head(lib)
	}
	release("1.4.0")
	release("2.0.0")

	signed, key := g.bare(g.hub, "signed"), filepath.Join(g.dir, "signer")
	g.must("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "jane", "-f", key)
	public := strings.TrimSpace(g.must("cat", key+".pub"))
	g.kubectl(g.admin, "create", "secret", "generic", "trust", "-n", "writ", "--from-literal=trust.yaml=keys:\n- {name: jane, type: ssh, key: "+public+"}\nrules:\n- {path: \"*\", signers: [jane]}\n- {path: /.writ/, signers: [jane]}\n")
	g.must("git", "-C", signed, "config", "gpg.format", "ssh")
	g.must("git", "-C", signed, "config", "user.signingkey", key)
	g.must("git", "-C", signed, "config", "commit.gpgsign", "true")
	g.write(filepath.Join(signed, "a.yaml"), setting("signed", "by jane"))
	g.publish(signed, "Signed")

	g.unpack(g.repo, "sources")
	g.publish(g.repo, "Follow versions and signatures")
	g.is("version", "1.4.0")
	g.part("signatures", func() { sourcesSigned(g, signed) })
	g.part("versions and hooks", func() { sourcesHooked(g, release) })
	g.part("a chat", func() {
		g.eventually(10*time.Second, "the chat has heard of the version", func() error {
			g.hub.mu.Lock()
			defer g.hub.mu.Unlock()
			for _, body := range g.hub.chat {
				if strings.Contains(body, "Release 1.4.1") && strings.Contains(body, `"attachments"`) && strings.Contains(body, "home") {
					return nil
				}
			}
			return fmt.Errorf("it has heard %q", g.hub.chat)
		})
	})
	g.part("mirrors", func() { sourcesMirrored(g) })
	g.must("git", "-C", g.repo, "rm", "-q", "repositories/lib.yaml", "repositories/signed.yaml")
	g.publish(g.repo, "No more of them")
}

// sourcesSigned: a commit without a signature does not enter, and its fix does.
func sourcesSigned(g *gitops, dir string) {
	c := g.reaches("signed", g.head(dir), v1alpha1.CommitHealthy)
	if c.Status.Signature == nil || !strings.Contains(fmt.Sprintf("%+v", *c.Status.Signature), "jane") {
		g.t.Errorf("the signature is %+v", c.Status.Signature)
	}
	g.write(filepath.Join(dir, "a.yaml"), setting("signed", "by nobody"))
	g.must("git", "-C", dir, "config", "commit.gpgsign", "false")
	g.publish(dir, "Not signed")
	c = g.reaches("signed", g.head(dir), v1alpha1.CommitFailed)
	contains(g.t, "what is said of an unsigned commit", fmt.Sprintf("%+v", c.Status.Findings), "sign")
	g.is("signed", "by jane")
}

// sourcesHooked: a new version of the range is taken at once when the forge
// says so, and one outside of it is not; another forge tells of a fixed tag.
func sourcesHooked(g *gitops, release func(string) string) {
	hook := forge.Hook{Repository: "plain/lib", URL: "https://127.0.0.1:6443/hooks/lib", Provider: webhook.GitLab, Secret: hookToken}
	tell := func(ref, sha string) {
		header, body := forge.Payload(hook, ref, sha, time.Now())
		if got := forge.Send(g.http, hook, header, body); got.Status != http.StatusAccepted {
			g.t.Errorf("%s says that %s has moved: %d %s", hook.Provider, ref, got.Status, got.Answer)
		}
	}
	tell("refs/tags/v1.4.1", release("1.4.1"))
	g.is("version", "1.4.1")

	file := filepath.Join(g.repo, "repositories/lib.yaml")
	g.edit(file, `semver: "~1.4"`, "tag: v3.0.0")
	g.edit(file, "provider: gitlab", "provider: gitea")
	g.publish(g.repo, "Follow a tag")
	g.reaches("cluster", g.head(g.repo), v1alpha1.CommitHealthy, v1alpha1.CommitApplied)
	hook.Provider = webhook.Gitea
	tell("refs/tags/v3.0.0", release("3.0.0"))
	g.is("version", "3.0.0")
}

// sourcesMirrored: what is pushed here is passed on, and what is pushed there
// comes in when the other host says so.
func sourcesMirrored(g *gitops) {
	copied, upstream := filepath.Join(g.hub.plain, "copy.git"), filepath.Join(g.hub.plain, "upstream.git")
	for _, dir := range []string{copied, upstream} {
		g.must("git", "init", "-q", "--bare", dir)
		g.must("git", "-C", dir, "config", "http.receivepack", "true")
	}
	g.must("git", "-C", g.repo, "push", "-q", upstream, "HEAD:main")
	file := filepath.Join(g.repo, "repositories/cluster.yaml")
	if _, err := os.Stat(file); err != nil { // no other chapter was told
		g.write(file, "apiVersion: writ.dev/v1alpha1\nkind: Repository\nmetadata: {name: cluster}\nspec:\n  url: builtin\n")
	}
	g.edit(file, "  url: builtin\n", "  url: builtin\n  webhook: {provider: gitea, secret: writ/shop-hook}\n  mirrors:\n"+
		"  - {url: \""+g.hub.url+"/plain/copy.git\", credentialsSecret: writ/deploy-git, refs: [refs/heads/main], interval: 1h}\n"+
		"  - {url: \""+g.hub.url+"/plain/upstream.git\", credentialsSecret: writ/deploy-git, direction: Pull, refs: [refs/heads/side], interval: 1h}\n")
	g.publish(g.repo, "Mirrors")
	at := func(dir, ref, sha string) func() error {
		return func() error {
			if out, err := g.run("git", "-C", dir, "rev-parse", ref); err != nil || strings.TrimSpace(out) != sha {
				return fmt.Errorf("%s is %s, want %s", ref, out, sha)
			}
			return nil
		}
	}
	g.eventually(20*time.Second, "the copy has what was pushed", at(copied, "main", g.head(g.repo)))

	g.write(filepath.Join(g.repo, "README.md"), "From elsewhere.\n")
	g.commit(g.repo, "From elsewhere")
	sha := g.head(g.repo)
	g.must("git", "-C", g.repo, "push", "-q", upstream, "HEAD:side")
	hook := forge.Hook{Repository: "plain/upstream", URL: "https://127.0.0.1:6443/hooks/cluster", Provider: webhook.Gitea, Secret: hookToken}
	header, body := forge.Payload(hook, "refs/heads/side", sha, time.Now())
	sent := time.Now()
	if got := forge.Send(g.http, hook, header, body); got.Status != http.StatusAccepted {
		g.t.Errorf("the other host says that it has moved: %d %s", got.Status, got.Answer)
	}
	g.eventually(20*time.Second, "what was pushed there is here", func() error {
		if out, err := g.run("git", "-C", g.repo, "ls-remote", "origin", "refs/heads/side"); err != nil || !strings.HasPrefix(out, sha) {
			return fmt.Errorf("%s %v", out, err)
		}
		return nil
	})
	g.t.Logf("push at the other host to here: %v", time.Since(sent).Round(time.Millisecond))
	metrics := g.kubectl(g.admin, "get", "--raw", "/metrics")
	contains(g.t, "the metrics", metrics, `writ_mirror_failing{direction="Push",repository="cluster",url="`+g.hub.url+`/plain/copy.git"} 0`, `writ_mirror_last_success_timestamp_seconds{direction="Pull"`)
	g.push(g.repo)
}
