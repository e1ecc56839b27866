package pki

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, dir string) *Authority {
	t.Helper()
	a, err := Open(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestOpenKeepsEverything(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	a := open(t, dir)
	b := open(t, dir)
	if !a.CA().Equal(b.CA()) || !a.ServiceAccountKey().Equal(b.ServiceAccountKey()) {
		t.Error("the second opening has another CA or key")
	}
	if left := time.Until(a.CA().NotAfter); left < 9*365*24*time.Hour {
		t.Errorf("the CA is good for %s only", left)
	}
	for name, want := range map[string]os.FileMode{caKeyFile: 0o600, saKeyFile: 0o600, caCertFile: 0o644} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %o, want %o", name, info.Mode().Perm(), want)
		}
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 3 {
		t.Errorf("files left over: %v", entries)
	}
}

func TestOpenRefusesDamage(t *testing.T) {
	for _, tt := range []struct {
		name   string
		damage func(t *testing.T, dir string)
		want   string // "" when it can be opened
	}{
		{"key alone: a crash while it was made", func(t *testing.T, dir string) { remove(t, dir, caCertFile) }, ""},
		{"certificate alone", func(t *testing.T, dir string) { remove(t, dir, caKeyFile) }, "read CA key"},
		{"no key of tokens", func(t *testing.T, dir string) { remove(t, dir, saKeyFile) }, ""},
		{"empty certificate", func(t *testing.T, dir string) { write(t, dir, caCertFile, "") }, "no certificate in PEM form"},
		{"empty key", func(t *testing.T, dir string) { write(t, dir, caKeyFile, "") }, "no PEM block"},
		{"another CA's key", func(t *testing.T, dir string) {
			data, err := os.ReadFile(filepath.Join(open(t, t.TempDir()).cfg.Dir, caKeyFile))
			if err != nil {
				t.Fatal(err)
			}
			write(t, dir, caKeyFile, string(data))
		}, "restore both from the same backup"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			before := open(t, dir)
			tt.damage(t, dir)
			after, err := Open(Config{Dir: dir})
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Fatalf("got %v, want %s", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !after.key.Equal(before.key) {
				t.Error("the CA's key is another one")
			}
		})
	}
	dir := t.TempDir()
	open(t, dir)
	later := func() time.Time { return time.Now().Add(11 * 365 * 24 * time.Hour) }
	if _, err := Open(Config{Dir: dir, Now: later}); err == nil || !strings.Contains(err.Error(), "has expired") {
		t.Errorf("expired CA: %v", err)
	}
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, dir, name, data string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestClientCertificate(t *testing.T) {
	a := open(t, t.TempDir())
	p, err := a.IssueClient(Client{User: "jane", Groups: []string{"a", "b"}, TTL: BreakGlass})
	if err != nil {
		t.Fatal(err)
	}
	if p.Leaf.Subject.CommonName != "jane" || !slices.Equal(p.Leaf.Subject.Organization, []string{"a", "b"}) {
		t.Errorf("subject %v", p.Leaf.Subject)
	}
	if left := time.Until(p.Leaf.NotAfter); left > time.Hour || left < 59*time.Minute {
		t.Errorf("good for %s, want an hour", left)
	}
	verify := func(usage x509.ExtKeyUsage) error {
		_, err := p.Leaf.Verify(x509.VerifyOptions{Roots: a.Pool(), KeyUsages: []x509.ExtKeyUsage{usage}})
		return err
	}
	if err := verify(x509.ExtKeyUsageClientAuth); err != nil {
		t.Error(err)
	}
	if verify(x509.ExtKeyUsageServerAuth) == nil {
		t.Error("a client certificate passes as a server's")
	}
}

// TestKubeconfig goes the whole way: a TLS server with our certificate, and
// client-go with the file that we have written.
func TestKubeconfig(t *testing.T) {
	a := open(t, t.TempDir())
	serving := a.NewServingCertificate(Serving{Name: "kube-apiserver", Hosts: APIServerHosts("cluster.local", "10.96.0.1")})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	server.Listener = tls.NewListener(server.Listener, &tls.Config{GetCertificate: serving.Get, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.Pool()})
	server.Start()
	defer server.Close()
	url := "https://" + server.Listener.Addr().String()

	path := filepath.Join(t.TempDir(), "admin.kubeconfig")
	if _, err := a.Write(File{Path: path, Server: url, Client: Client{User: "jane"}}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseIdleConnections()
	resp, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); string(body) != "jane" {
		t.Errorf("the server saw %q", body)
	}
}

func TestServingCertificate(t *testing.T) {
	now := time.Now()
	a, err := Open(Config{Dir: t.TempDir(), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	s := a.NewServingCertificate(Serving{Name: "kube-apiserver", Hosts: APIServerHosts("cluster.local", "10.96.0.1", "192.0.2.7")})
	get := func() *x509.Certificate {
		t.Helper()
		c, err := s.Get(nil)
		if err != nil {
			t.Fatal(err)
		}
		return c.Leaf
	}
	first := get()
	for _, host := range []string{"127.0.0.1", "::1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "10.96.0.1", "192.0.2.7"} {
		if err := first.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
	if first.VerifyHostname("10.244.0.1") == nil {
		t.Error("answers for an address that it was not given")
	}
	if !get().Equal(first) {
		t.Error("issued again without need")
	}
	s.AddHosts("10.244.0.1", "localhost")
	second := get()
	if err := second.VerifyHostname("10.244.0.1"); err != nil || second.Equal(first) {
		t.Errorf("after an address was added: %v", err)
	}
	now = now.Add(Standing * 3 / 4)
	if get().Equal(second) {
		t.Error("an old certificate is not renewed")
	}
}

func TestGitConfig(t *testing.T) {
	a := open(t, t.TempDir())
	path := filepath.Join(t.TempDir(), "push.gitconfig")
	if _, err := a.Write(File{Path: path, Server: "https://127.0.0.1:6443", Client: Client{User: "pusher"}, Git: true}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := "[http \"https://127.0.0.1:6443/\"]\n\tsslCAInfo = \"" + path + ".ca\"\n\tsslCert = \"" + path + ".crt\"\n\tsslKey = \"" + path + ".key\"\n"
	if string(data) != want {
		t.Errorf("got\n%s\nwant\n%s", data, want)
	}
	if _, err := tls.LoadX509KeyPair(path+".crt", path+".key"); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(path + ".key"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the key: %v, %v", info.Mode(), err)
	}
}

// TestKeeper lets two days pass: the break-glass file must be good at any time.
func TestKeeper(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		a := open(t, filepath.Join(dir, "pki"))
		path := filepath.Join(dir, "admin.kubeconfig")
		k := &Keeper{Authority: a, Log: slog.New(slog.DiscardHandler), Files: []File{
			{Path: path, Server: "https://127.0.0.1:6443", Client: Client{User: "admin", TTL: BreakGlass}},
			{Path: filepath.Join(dir, "viewer.kubeconfig"), Mode: 0o644, Server: "https://127.0.0.1:6443", Client: Client{User: "viewer"}},
		}}
		ctx, stop := context.WithCancel(t.Context())
		if err := k.WriteAll(); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- k.Run(ctx) }()
		seen := map[string]bool{}
		for range 48 * 6 {
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			cfg, err := clientcmd.LoadFromFile(path)
			if err != nil {
				t.Fatal(err)
			}
			cert, err := parseCert(cfg.AuthInfos["admin"].ClientCertificateData)
			if err != nil {
				t.Fatal(err)
			}
			if left := time.Until(cert.NotAfter); left < 10*time.Minute {
				t.Fatalf("good for %s only", left)
			}
			seen[cert.SerialNumber.String()] = true
		}
		if len(seen) < 48 || len(seen) > 90 {
			t.Errorf("%d certificates in two days", len(seen))
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestKubeconfigOfName: a server that is called by a name, or by an address that
// may be a router's, is asked for the certificate that the authority in the
// kubeconfig has issued.
func TestKubeconfigOfName(t *testing.T) {
	a, err := Open(Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := a.IssueClient(Client{User: "jane"})
	if err != nil {
		t.Fatal(err)
	}
	for server, want := range map[string]string{
		"https://127.0.0.1:6443": "", "https://[::1]:6443": "", "https://192.0.2.1:6443": "kubernetes", "https://api.example.com:6443": "kubernetes",
	} {
		data, err := a.Kubeconfig(server, "jane", pair)
		if err != nil {
			t.Fatal(err)
		}
		c, err := clientcmd.Load(data)
		if err != nil || c.Clusters["writ"].Server != server || c.Clusters["writ"].TLSServerName != want {
			t.Errorf("%s: %+v, %v; want the name %q", server, c.Clusters["writ"], err, want)
		}
	}
}
