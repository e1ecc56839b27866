//go:build e2e

package e2e

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// gitopsRender: an overlay, a chart and a policy come in one commit; the images
// that the policy does not allow are named where a person edits them.
func gitopsRender(t *testing.T, g *gitops) {
	g.unpack(g.repo, "render")
	g.must("git", "-C", g.repo, "add", "-A")
	want := []string{
		"blog/home/patch.yaml:10:16: spec.template.spec.containers[0].image: images come from registry.example.com",
		"charts/mail/templates/deployment.yaml:14:16: spec.template.spec.containers[0].image: images come from registry.example.com",
	}
	contains(t, "writ check", g.refused(g.bin("writ"), "check", g.repo), want...)
	out := g.refuse(g.repo, "A blog and mail")
	for _, w := range want {
		contains(t, "git push", out, "remote: "+w)
	}
	contains(t, "git push", out, "push the image there first", "2 findings", "the cluster is unchanged")
	g.gone("deployment/home-blog", "-n", "apps")

	g.edit(filepath.Join(g.repo, "blog/home/patch.yaml"), "docker.io/", "registry.example.com/")
	g.edit(filepath.Join(g.repo, "charts/mail/values.yaml"), "docker.io", "registry.example.com")
	out = g.publish(g.repo, "A blog and mail")
	contains(t, "git push", out, "remote: + Deployment/apps/home-blog  blog/base/deployment.yaml:1",
		"remote: + Deployment/apps/home-mail  charts/mail/templates/deployment.yaml:1", "remote: warning: blog/base/deployment.yaml:", "say who answers for it")
	if n := strings.Count(out, "say who answers for it"); n != 1 {
		t.Errorf("%d warnings, of which one is right:\n%s", n, out)
	}
	g.reaches("cluster", g.head(g.repo), v1alpha1.CommitHealthy)
	image := "{.spec.replicas} {.spec.template.spec.containers[0].image} {.metadata.labels}"
	if got := g.field(image, "deployment/home-blog", "-n", "apps"); got != `2 registry.example.com/blog:v2 {"where":"home"}` {
		t.Errorf("the overlay is %s", got)
	}
	if got := g.field(image, "deployment/home-mail", "-n", "apps"); got != `3 registry.example.com/mail:v1 {"chart":"mail-1.2.3","owner":"post"}` {
		t.Errorf("the chart is %s", got)
	}
	contains(t, "writ why of a patched field", g.must(g.bin("writ"), "why", "deployment/home-blog.spec.replicas", "-n", "apps", "--repo", g.repo), "blog/home/patch.yaml:5")
}

// gitopsCustom: a definition and its resources come in one commit, and bad ones
// are refused by what the definition says.
func gitopsCustom(t *testing.T, g *gitops) {
	g.unpack(g.repo, "custom")
	contains(t, "git push", g.publish(g.repo, "Backups"), "remote: + CustomResourceDefinition/backups.example.com  custom/definition.yaml:1", "remote: + Backup/apps/nightly ", "custom/nightly.yaml:1")
	g.reaches("cluster", g.head(g.repo), v1alpha1.CommitHealthy)
	contains(t, "kubectl get backups", g.kubectl(g.admin, "get", "backups", "-A"), "KEEP", "nightly   7")

	g.unpack(g.repo, "custombad")
	contains(t, "git push", g.refuse(g.repo, "More backups"),
		"remote: custom/bad.yaml:6:3: spec.keep: ", "30",
		"remote: custom/bad.yaml:12:3: spec.of: ", "^[a-z]+$",
		"remote: custom/bad.yaml:13:3: spec.kept: there is no such field",
		"at most three of everything are kept", "4 findings")
	contains(t, "writ check", g.refused(g.bin("writ"), "check", g.repo), "custom/bad.yaml:6:3: ", "custom/bad.yaml:12:3: ", "custom/bad.yaml:13:3: ")
	g.gone("backup/weekly", "-n", "apps")
	g.must("git", "-C", g.repo, "rm", "-qf", "custom/bad.yaml")

	// The definition becomes stricter than what it defines: refused as well.
	g.edit(filepath.Join(g.repo, "custom/definition.yaml"), "^[a-z]+$", "^[a-c]+$")
	contains(t, "push of a stricter definition", g.refuse(g.repo, "Stricter"), "remote: custom/nightly.yaml:4:8: spec.of: ")
	g.edit(filepath.Join(g.repo, "custom/definition.yaml"), "^[a-c]+$", "^[a-z]+$")
}

// The plain texts that nobody but a reader of Secrets may find, also as a
// Secret has them.
const (
	password     = "correct horse: battery # staple" // in the fixture, encrypted by sops
	nextPassword = "tr0ub4dor and three"
	badPassword  = "staple!is-no-base64"
)

// gitopsSecrets: files that sops and age have encrypted become Secrets, and what
// is in them is nowhere else.
func gitopsSecrets(t *testing.T, g *gitops) {
	testdata := filepath.Join(g.root, "reconciler/secret/testdata")
	sealed, err := os.ReadFile(filepath.Join(testdata, "fixtures/secret.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	g.write(filepath.Join(g.repo, "shop/password.yaml"), string(sealed))
	contains(t, "push without keys", g.refuse(g.repo, "A password"), "remote: shop/password.yaml:", "spec.decryption")

	// The repository says in Git who has the keys; the keys come from the server.
	g.must("git", "-C", g.repo, "rm", "-q", "--cached", "shop/password.yaml")
	os.Remove(filepath.Join(g.repo, "shop/password.yaml"))
	g.unpack(g.repo, "decryption")
	g.publish(g.repo, "Open what is encrypted")
	g.reaches("cluster", g.head(g.repo), v1alpha1.CommitHealthy)
	g.part("missing keys hold up only what is encrypted", func() {
		g.write(filepath.Join(g.repo, "apps/plain.yaml"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plain, namespace: apps}\n")
		g.publish(g.repo, "Nothing secret")
		g.reaches("cluster", g.head(g.repo), v1alpha1.CommitHealthy)
	})
	g.write(filepath.Join(g.repo, "shop/password.yaml"), string(sealed))
	contains(t, "push before the key is there", g.refuse(g.repo, "A password"), "writ/keys", ".agekey")
	g.kubectl(g.admin, "create", "secret", "generic", "keys", "-n", "writ", "--from-file="+filepath.Join(testdata, "keys/one.agekey"))
	said := g.publish(g.repo, "A password")
	contains(t, "git push", said, "remote: + Secret/shop/shop  shop/password.yaml:2")
	g.reaches("cluster", g.head(g.repo), v1alpha1.CommitHealthy)
	g.holds(password)

	// A file that age has encrypted as a whole takes its place.
	os.Remove(filepath.Join(g.repo, "shop/password.yaml"))
	g.seal(testdata, "shop/shop.yaml.age", "stringData: {password: "+nextPassword+"}")
	said += g.must(g.bin("writ"), "plan", g.repo, "--age-key", filepath.Join(testdata, "keys/one.agekey"))
	said += g.publish(g.repo, "Another password")
	g.reaches("cluster", g.head(g.repo), v1alpha1.CommitHealthy)
	g.holds(nextPassword)
	g.kubectl(g.admin, "delete", "secret/shop", "-n", "shop")
	g.eventually(10*time.Second, "the Secret is back", func() error {
		out, err := g.run(g.bin("kubectl"), g.admin, "get", "secret/shop", "-n", "shop")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	g.holds(nextPassword)

	// What is wrong in an encrypted file is said without saying what is there.
	g.seal(testdata, "shop/shop.yaml.age", "data: {password: "+badPassword+"}")
	bad := g.refuse(g.repo, "A bad one")
	contains(t, "push of a Secret that is wrong", bad, "remote: shop/shop.yaml.age:", "data")
	g.must("git", "-C", g.repo, "reset", "-q", "--hard")
	g.nowhere(said + bad)
}

// seal writes a Secret into a file that is encrypted with age.
func (g *gitops) seal(testdata, file, data string) {
	g.t.Helper()
	key, err := os.ReadFile(filepath.Join(testdata, "keys/one.agekey"))
	if err != nil {
		g.t.Fatal(err)
	}
	ids, err := age.ParseIdentities(bytes.NewReader(key))
	if err != nil {
		g.t.Fatal(err)
	}
	var b bytes.Buffer
	w, err := age.Encrypt(&b, ids[0].(*age.X25519Identity).Recipient())
	if err != nil {
		g.t.Fatal(err)
	}
	fmt.Fprintf(w, "apiVersion: v1\nkind: Secret\nmetadata: {name: shop, namespace: shop}\n%s\n", data)
	if err := w.Close(); err != nil {
		g.t.Fatal(err)
	}
	g.write(filepath.Join(g.repo, file), b.String())
}

// holds checks the password in the cluster.
func (g *gitops) holds(want string) {
	g.t.Helper()
	got, err := base64.StdEncoding.DecodeString(g.field("{.data.password}", "secret/shop", "-n", "shop"))
	if err != nil || string(got) != want {
		g.t.Errorf("the password is %q (%v), want %q", got, err, want)
	}
}

// nowhere looks for the plain texts wherever somebody without the right to read
// Secrets could, and for the key.
func (g *gitops) nowhere(said string) {
	g.t.Helper()
	log, err := os.ReadFile(g.log("server"))
	if err != nil {
		g.t.Fatal(err)
	}
	places := map[string]string{
		"what git and writ said": said,
		"the server's log":       string(log),
		"objects":                g.kubectl(g.admin, "get", "commits,inventories,repositories,events", "-A", "-o", "yaml", "--show-managed-fields"),
		"metrics":                g.kubectl(g.admin, "get", "--raw", "/metrics"),
		"writ history":           g.must(g.bin("writ"), "history", "-o", "json"),
		"writ why":               g.must(g.bin("writ"), "why", "secret/shop.data.password", "-n", "shop"),
		"the page of the Secret": g.kubectl(g.admin, "get", "--raw", "/ui/objects/core/secrets/shop/shop?tab=yaml"),
		"the page of the commit": g.kubectl(g.admin, "get", "--raw", "/ui/commits/"+commitName("cluster", g.head(g.repo))),
	}
	for _, text := range []string{password, nextPassword, badPassword, "AGE-SECRET-KEY-"} {
		for place, all := range places {
			for _, form := range []string{text, base64.StdEncoding.EncodeToString([]byte(text))} {
				if strings.Contains(all, form) {
					g.t.Errorf("%q is in %s", form, place)
				}
			}
		}
	}
	if !strings.Contains(places["objects"], "kind: Event") || !strings.Contains(places["objects"], "Secret/shop/shop") ||
		!strings.Contains(places["the page of the Secret"], "kind") || !strings.Contains(places["the page of the commit"], "Another password") {
		g.t.Error("the objects or pages are not what they should be, so that nothing was looked through")
	}
}
