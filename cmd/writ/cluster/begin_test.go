package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/writ-os/writ/ci/freeport"
	"github.com/writ-os/writ/controlplane/auth/bootstrap"
	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/auth/pki"
	"github.com/writ-os/writ/nodeagent/join"
)

// prepared is what is made before a cluster begins: a folder with its
// authority, and a kubeconfig of its administrator.
func prepared(t *testing.T, server string) (ca *pki.Authority, dir string, admin *rest.Config) {
	t.Helper()
	ca, err := pki.Make(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ca.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for name, data := range map[string][]byte{"ca.crt": ca.CAPEM(), "ca.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pair, err := ca.IssueClient(pki.Client{User: identity.Admin, Groups: []string{"system:masters"}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := ca.Kubeconfig(server, identity.Admin, pair)
	if err != nil {
		t.Fatal(err)
	}
	if admin, err = clientcmd.RESTConfigFromKubeConfig(text); err != nil {
		t.Fatal(err)
	}
	return ca, dir, admin
}

// running starts a control plane, for as long as f runs.
func running(t *testing.T, cfg Config, f func()) {
	t.Helper()
	p := NewControlPlane(cfg)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-p.Ready():
		f()
	case err := <-done:
		done <- nil
		t.Fatal(err)
	}
}

// who says whom a server takes a client for.
func who(t *testing.T, cfg *rest.Config) (authenticationv1.UserInfo, error) {
	t.Helper()
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}
	return r.Status.UserInfo, nil
}

const firstToken = "abcdef.0123456789abcdef"

// TestBeginsPrepared: a cluster begins with an authority and a token that were
// made before it ran; the token is never made again.
func TestBeginsPrepared(t *testing.T) {
	var log bytes.Buffer
	cfg := Config{DataDir: filepath.Join(t.TempDir(), "data"), Listen: freeport.Local(t), NodeName: "n", FirstToken: firstToken, ExternalURL: "https://writ.example.com:443",
		Log: slog.New(slog.NewTextHandler(&log, nil))}
	url := "https://" + cfg.Listen
	ca, dir, admin := prepared(t, url)
	cfg.Authority = dir
	joins := &rest.Config{Host: url, BearerToken: firstToken, TLSClientConfig: rest.TLSClientConfig{CAData: ca.CAPEM()}}
	secret := "bootstrap-token-abcdef"
	kube, err := kubernetes.NewForConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	running(t, cfg, func() {
		for _, name := range []string{"kubernetes", "writ.example.com"} {
			conn, err := (&tls.Dialer{Config: &tls.Config{RootCAs: ca.Pool(), ServerName: name}}).DialContext(t.Context(), "tcp", cfg.Listen)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			conn.Close()
		}
		if u, err := who(t, admin); err != nil || u.Username != identity.Admin || !slices.Contains(u.Groups, "system:masters") {
			t.Errorf("administrator: %+v, %v", u, err)
		}
		if u, err := who(t, joins); err != nil || u.Username != "system:bootstrap:abcdef" || !slices.Contains(u.Groups, identity.JoinersGroup) || slices.Contains(u.Groups, identity.ServersGroup) {
			t.Errorf("machine that joins: %+v, %v", u, err)
		}
		s, err := kube.CoreV1().Secrets("kube-system").Get(t.Context(), secret, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want := bootstrap.NewSecret(firstToken, identity.JoinersGroup, "", time.Time{})
		expires, err := time.Parse(time.RFC3339, string(s.Data["expiration"]))
		if left := time.Until(expires); err != nil || s.Type != want.Type || left > 24*time.Hour || left < 23*time.Hour {
			t.Errorf("%v, %v, expires %s", s.Type, err, expires)
		}
		for k, v := range want.Data {
			if !bytes.Equal(s.Data[k], v) {
				t.Errorf("%s is %q, want %q", k, s.Data[k], v)
			}
		}
		m := join.New(join.Config{Server: url, Token: firstToken, CAHashes: []string{join.Hash(ca.CA())}, Verify: bootstrap.Verify, Log: cfg.Log})
		// A controller writes what everybody may read of the cluster.
		found, err := m.Discover(t.Context())
		for end := time.Now().Add(20 * time.Second); err != nil && time.Now().Before(end); found, err = m.Discover(t.Context()) {
			time.Sleep(20 * time.Millisecond)
		}
		if err != nil || !bytes.Equal(bytes.TrimSpace(found), bytes.TrimSpace(ca.CAPEM())) {
			t.Errorf("a machine that joins finds %q, %v", found, err)
		}
		if err := kube.CoreV1().Secrets("kube-system").Delete(t.Context(), secret, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	running(t, cfg, func() {
		if _, err := who(t, joins); err == nil {
			t.Error("a token that was deleted is there again")
		}
		if _, err := who(t, admin); err != nil {
			t.Errorf("administrator: %v", err)
		}
	})
	for _, text := range []string{"0123456789abcdef", "PRIVATE KEY"} {
		if strings.Contains(log.String(), text) {
			t.Errorf("the log has %q", text)
		}
	}
	_, another, _ := prepared(t, url)
	cfg.Authority = another
	if err := NewControlPlane(cfg).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "a cluster keeps the one that it began with: start without it") {
		t.Errorf("another authority: %v", err)
	}
	if got, err := os.ReadFile(cfg.file("pki", "ca.crt")); err != nil || !bytes.Equal(got, ca.CAPEM()) {
		t.Errorf("the authority has changed: %v", err)
	}
}

// TestFirstTokenAfterAKill: a server that was killed before the token was in the
// store writes it when it starts again, and one that begins without a token
// never has one.
func TestFirstTokenAfterAKill(t *testing.T) {
	cfg := Config{DataDir: filepath.Join(t.TempDir(), "data"), Listen: freeport.Local(t), NodeName: "n", Still: true, Log: slog.New(slog.DiscardHandler)}
	secrets := func() (out []string) {
		t.Helper()
		admin, err := clientcmd.BuildConfigFromFlags("", cfg.AdminKubeconfig())
		if err != nil {
			t.Fatal(err)
		}
		kube, err := kubernetes.NewForConfig(admin)
		if err != nil {
			t.Fatal(err)
		}
		all, err := kube.CoreV1().Secrets("kube-system").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all.Items {
			if s.Type == corev1.SecretType("bootstrap.kubernetes.io/token") {
				out = append(out, s.Name)
			}
		}
		return out
	}
	running(t, cfg, func() {
		if got := secrets(); len(got) > 0 {
			t.Errorf("%q", got)
		}
	})
	cfg.FirstToken = firstToken
	running(t, cfg, func() {
		if got := secrets(); len(got) > 0 {
			t.Errorf("a cluster that has begun has %q", got)
		}
	})
	if err := os.WriteFile(cfg.file(beginsFile), nil, 0o600); err != nil { // as the kill leaves it
		t.Fatal(err)
	}
	running(t, cfg, func() {
		if got := secrets(); len(got) != 1 || got[0] != "bootstrap-token-abcdef" {
			t.Errorf("after a kill: %q", got)
		}
	})
	if _, err := os.Lstat(cfg.file(beginsFile)); !os.IsNotExist(err) {
		t.Errorf("the cluster still begins: %v", err)
	}
}

// TestAuthorityAfterAKill: the key alone is there.
func TestAuthorityAfterAKill(t *testing.T) {
	cfg := Config{DataDir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}
	ca, dir, _ := prepared(t, "https://127.0.0.1:6443")
	cfg.Authority = dir
	key, err := ca.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(cfg.file("pki"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cfg.file("pki", "ca.key"), key, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := NewControlPlane(cfg).adopt(); err != nil {
		t.Fatal(err)
	}
	a, err := pki.Open(pki.Config{Dir: cfg.file("pki")})
	if err != nil || !a.CA().Equal(ca.CA()) {
		t.Errorf("another authority: %v", err)
	}
	leaf, err := a.IssueServing(pki.Serving{Name: "x", Hosts: []string{"kubernetes"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leaf.Leaf.Verify(x509.VerifyOptions{Roots: ca.Pool(), DNSName: "kubernetes"}); err != nil {
		t.Error(err)
	}
	cfg.Authority = t.TempDir()
	if err := NewControlPlane(cfg).adopt(); err == nil || !strings.Contains(err.Error(), "read --authority") {
		t.Errorf("an empty folder: %v", err)
	}
}

func TestCheckBeginning(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  Config
		want string
	}{
		"nothing":               {Config{}, ""},
		"first":                 {Config{FirstToken: firstToken, Authority: "x"}, ""},
		"further":               {Config{Join: Join{Server: "https://a", Token: firstToken}}, ""},
		"no token":              {Config{FirstToken: "hunter2"}, "is no token"},
		"further with token":    {Config{FirstToken: firstToken, Join: Join{Server: "https://a"}}, "is for the first server"},
		"further, an authority": {Config{Authority: "x", Join: Join{Server: "https://a"}}, "is handed over"},
	} {
		err := c.cfg.CheckBeginning()
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
