package reconciler

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/source"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// checkout is a real repository whose commits are signed by real keys.
type checkout struct {
	t        *testing.T
	dir, box string
}

func newCheckout(t *testing.T) checkout {
	c := checkout{t, t.TempDir(), t.TempDir()}
	for _, name := range []string{"ada", "eve"} {
		c.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", filepath.Join(c.box, name))
	}
	c.run("git", "init", "-q", "-b", "main")
	for key, val := range map[string]string{"user.name": "Ada", "user.email": "ada@example.com", "gpg.format": "ssh", "commit.gpgsign": "false"} {
		c.run("git", "config", key, val)
	}
	return c
}

func (c checkout) run(name string, args ...string) string {
	c.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit writes a file; by "" it is not signed.
func (c checkout) commit(by, path, content string) {
	c.t.Helper()
	full := filepath.Join(c.dir, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.run("git", "add", "-A")
	args := []string{"commit", "-q", "-m", path}
	if by != "" {
		args = append(args, "-S"+filepath.Join(c.box, by))
	}
	c.run("git", args...)
}

// trusting is a cluster that asks of a repository that Ada signs.
func trusting(t *testing.T, c checkout) *client.Fake {
	t.Helper()
	key, err := os.ReadFile(filepath.Join(c.box, "ada.pub"))
	if err != nil {
		t.Fatal(err)
	}
	policy := "keys:\n- {name: ada, type: ssh, key: " + strings.TrimSpace(string(key)) + "}\n" +
		"rules:\n- {path: \"*\", signers: [ada]}\n- {path: /.writ/, signers: [ada]}\n" +
		"scopes:\n- {paths: [\"*\"], allow: [{kinds: [ConfigMap], namespaces: [default]}]}\n"
	fake := client.NewFake()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "writ", Name: "trust"}, Data: map[string][]byte{"trust.yaml": []byte(policy)}}
	if _, err := client.Create(t.Context(), fake, secret, client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	repo := &v1alpha1.Repository{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}, Spec: v1alpha1.RepositorySpec{URL: c.dir,
		Verification: &v1alpha1.RepositoryVerification{Mode: "Require", Secret: "writ/trust"}}}
	if _, err := client.Create(t.Context(), fake, repo, client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return fake
}

// TestTrust follows a real repository: who has not signed does not enter, nor
// does who may not declare what the commit declares.
func TestTrust(t *testing.T) {
	c := newCheckout(t)
	fake := trusting(t, c)
	ctx := t.Context()
	src := source.New(source.Config{URL: c.dir})
	defer src.Close()
	r := New(Config{Client: fake, Source: Git(src, "."), Declared: true})
	object := "apiVersion: v1\nkind: %s\nmetadata: {name: x}\n"
	for _, tt := range []struct{ by, path, kind, rule string }{
		{"ada", "first.yaml", "ConfigMap", ""},
		{"", "unsigned.yaml", "ConfigMap", "Signature"},
		{"eve", "stranger.yaml", "ConfigMap", "Signature"},
		{"ada", "other.yaml", "Secret", "Scope"},
		{"ada", "second.yaml", "Namespace", "Scope"},
	} {
		c.commit(tt.by, tt.path, strings.Replace(object, "%s", tt.kind, 1))
		head, err := src.Fetch(ctx)
		if err != nil {
			t.Fatal(err)
		}
		p, err := r.Preview(ctx, Git(src, "."), head)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if len(p.Findings) > 0 {
			got = p.Findings[0].Rule
		}
		if got != tt.rule {
			t.Errorf("%s by %q: %q, want %q: %v", tt.path, tt.by, got, tt.rule, p.Findings)
		}
		if tt.rule != "" {
			c.run("git", "reset", "-q", "--hard", "HEAD~1")
		}
	}
}

// TestTrustKilled: wherever the process dies, nothing of a commit that nobody
// has signed is in the cluster after it, and the next signed one enters.
func TestTrustKilled(t *testing.T) {
	c := newCheckout(t)
	src := source.New(source.Config{URL: c.dir})
	defer src.Close()
	commit := func(by, path string) Commit {
		c.commit(by, path, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "+strings.TrimSuffix(path, ".yaml")+"}\n")
		head, err := src.Fetch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return head
	}
	first := commit("ada", "first.yaml")
	unsigned := commit("", "unsigned.yaml")
	c.run("git", "reset", "-q", "--hard", "HEAD~1")
	fix := commit("ada", "fix.yaml")
	deaths := 0
	for point := range int32(6) {
		for _, stored := range []bool{false, true} {
			fake := trusting(t, c)
			dies := func(head Commit) {
				m := &mortal{Backend: fake, stored: stored}
				m.left.Store(point)
				if err := life(t, m, src, head); errors.Is(err, errDead) {
					deaths++
				}
			}
			live := func(head Commit) {
				if err := life(t, fake, src, head); err != nil {
					t.Fatal(err)
				}
			}
			is := func(head Commit, names ...string) {
				t.Helper()
				var have []string
				for _, m := range client.CachedList[*corev1.ConfigMap](fake.Cache(), "default") {
					have = append(have, m.Name)
				}
				slices.Sort(have)
				repo, _ := client.Cached[*v1alpha1.Repository](fake.Cache(), schema.Key{Name: "cluster"})
				if !slices.Equal(have, names) || repo.Status.Applied != head.SHA {
					t.Fatalf("killed at %d, stored %v: there are %v of %s", point, stored, have, repo.Status.Applied)
				}
			}
			live(first)
			dies(unsigned)
			is(first, "first")
			live(unsigned)
			is(first, "first")
			dies(fix)
			live(fix)
			is(fix, "first", "fix")
			live(unsigned) // what somebody has pushed back is no better than before
			is(fix, "first", "fix")
		}
	}
	if deaths < 8 {
		t.Errorf("%d deaths: nothing was tested", deaths)
	}
}

// life is a process that sees one head and ends.
func life(t *testing.T, b client.Backend, src *source.Source, head Commit) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	return New(Config{Client: b, Source: Git(src, "."), Declared: true}).do(ctx, head, nil)
}
