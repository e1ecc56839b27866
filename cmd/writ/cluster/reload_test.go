package cluster

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/ci/freeport"
	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/auth/pki"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// The operator's files reach their places: a client of another CA is known,
// aggregated servers are told of it, and a name gets its certificate.
func TestOperatorsFiles(t *testing.T) {
	people, err := pki.Open(pki.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	serving, err := people.IssueServing(pki.Serving{Name: "people", Hosts: []string{"api.example.com"}})
	if err != nil {
		t.Fatal(err)
	}
	jane, err := people.IssueClient(pki.Client{User: "jane"})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	authorization := file("authorization.yaml", []byte("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: [{type: RBAC, name: rbac}]\n"))
	cfg := Config{DataDir: filepath.Join(dir, "data"), Listen: freeport.Local(t), NodeName: "n", Still: true, Log: slog.New(slog.DiscardHandler)}
	cfg.API.ClientCAFile = file("ca.crt", people.CAPEM())
	cfg.API.TLS = ServingFiles{CertFile: file("tls.crt", serving.CertPEM), KeyFile: file("tls.key", serving.KeyPEM)}
	cfg.API.Authorization.File = authorization
	p := NewControlPlane(cfg)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	select {
	case <-p.Ready():
	case err := <-done:
		t.Fatal(err)
	}
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()

	ask := func(name string, ca *pki.Authority) string {
		tr := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: ca.Pool(), ServerName: name, Certificates: []tls.Certificate{jane.TLS()}}}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+cfg.Listen+"/api/v1/nodes", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := tr.RoundTrip(r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	for name, ca := range map[string]*pki.Authority{"api.example.com": people, "kubernetes.default.svc": p.authority} {
		if got := ask(name, ca); !strings.Contains(got, `User \"jane\" cannot list resource`) {
			t.Errorf("%s: %s", name, got)
		}
	}
	cm, err := client.Get[*corev1.ConfigMap](t.Context(), p.as(identity.APIServer), schema.Key{Namespace: "kube-system", Name: "extension-apiserver-authentication"})
	if err != nil || strings.Count(cm.Data["client-ca-file"], "BEGIN CERTIFICATE") != 2 {
		t.Errorf("aggregated servers learn %v, %v", cm, err)
	}
	if len(p.followed) != 3 {
		t.Errorf("%d files are followed, want 3", len(p.followed))
	}
}
