package auth

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/writ-os/writ/controlplane/auth/pki"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/reload"
)

func newCA(t *testing.T) *pki.Authority {
	t.Helper()
	a, err := pki.Open(pki.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// followed is a file and the watcher of it.
type followed struct {
	*testing.T
	path string
	*reload.Watcher
}

func follow(t *testing.T, text string, cfg reload.Config) *followed {
	t.Helper()
	f := &followed{T: t, path: filepath.Join(t.TempDir(), "file")}
	f.write(text)
	cfg.Files = []string{f.path}
	f.Watcher = reload.New(cfg)
	if err := f.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *followed) write(text string) {
	f.Helper()
	if err := os.WriteFile(f.path, []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
}

// change writes the file and lets the watcher see it.
func (f *followed) change(text string) {
	f.Helper()
	f.write(text)
	f.Check(f.Context())
}

// TestClientCAs replaces the CA of clients under a running server: those of the
// new one are known at once, also to a client that chooses its certificate by
// what the server says, those of the old one no more, whatever was known of
// them; those of the cluster's own CA always are.
func TestClientCAs(t *testing.T) {
	own, first := newCA(t), newCA(t)
	second, err := pki.OpenFrontProxy(pki.Config{Dir: t.TempDir()}) // the names of CAs are what a server says of them
	if err != nil {
		t.Fatal(err)
	}
	bundle := NewCABundle(own.CAPEM())
	file := follow(t, string(first.CAPEM()), reload.Config{Take: bundle.Take})
	a := NewAuthenticator(AuthenticatorConfig{CAs: bundle})
	h := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch u, ok, err := a.Authenticate(r); {
		case err != nil:
			fmt.Fprint(w, "refused")
		case ok:
			fmt.Fprint(w, u.GetName())
		}
	}))
	serving := own.NewServingCertificate(pki.Serving{Name: "x", Hosts: []string{"127.0.0.1"}})
	h.Listener = tls.NewListener(h.Listener, TLSConfig(serving.Get, bundle))
	h.Start()
	defer h.Close()
	ask := func(ca *pki.Authority, insist bool) string {
		t.Helper()
		pair, err := ca.IssueClient(pki.Client{User: "jane"})
		if err != nil {
			t.Fatal(err)
		}
		cert := pair.TLS()
		cfg := &tls.Config{RootCAs: own.Pool(), Certificates: []tls.Certificate{cert}}
		if insist {
			cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
		}
		s := &server{T: t, url: "https://" + h.Listener.Addr().String()}
		_, body := s.ask(&http.Client{Transport: &http.Transport{TLSClientConfig: cfg, DisableKeepAlives: true}}, "")
		return body
	}
	expect := func(when string, ca *pki.Authority, polite, insisting string) {
		t.Helper()
		if got := ask(ca, false); got != polite {
			t.Errorf("%s: %q, want %q", when, got, polite)
		}
		if got := ask(ca, true); got != insisting {
			t.Errorf("%s, insisting: %q, want %q", when, got, insisting)
		}
	}
	expect("the first CA", first, "jane", "jane")
	expect("the second CA before it is known", second, "", "refused")
	file.change("no certificate")
	expect("the first CA after a broken file", first, "jane", "jane")
	file.change(string(second.CAPEM()))
	expect("the second CA", second, "jane", "jane")
	expect("the first CA after the change", first, "refused", "refused")
	expect("the cluster's own CA", own, "jane", "jane")
}

// TestKnownCertificate: one that was verified is not good for ever.
func TestKnownCertificate(t *testing.T) {
	first, second := newCA(t), newCA(t)
	bundle := NewCABundle(nil)
	file := follow(t, string(first.CAPEM()), reload.Config{Take: bundle.Take})
	a := NewAuthenticator(AuthenticatorConfig{CAs: bundle})
	pair, err := first.IssueClient(pki.Client{User: "jane"})
	if err != nil {
		t.Fatal(err)
	}
	r := request(t, pair.Leaf)
	for _, ca := range []*pki.Authority{first, second, first} {
		file.change(string(ca.CAPEM()))
		if _, ok, err := a.Authenticate(r); ok != (ca == first) || (err == nil) != ok {
			t.Errorf("%v, %v", ok, err)
		}
	}
}

func TestServingCertificates(t *testing.T) {
	issue := func(hosts ...string) (*CertificateFile, *tls.Certificate) {
		p, err := newCA(t).IssueServing(pki.Serving{Name: "x", Hosts: hosts})
		if err != nil {
			t.Fatal(err)
		}
		c := &CertificateFile{}
		if err := c.Take(t.Context(), [][]byte{p.CertPEM, p.KeyPEM}); err != nil {
			t.Fatal(err)
		}
		return c, c.now.Load()
	}
	_, own := issue("node-1", "kubernetes", "127.0.0.1")
	primary, people := issue("api.example.com", "kubernetes", "localhost", "node-1")
	bare, _ := issue("api.example.com")
	named, wild := issue("ignored.example.com")
	named.Names = []string{"*.apps.example.com"}
	for _, tt := range []struct {
		name    string
		primary *CertificateFile
		want    *tls.Certificate
	}{
		{"", primary, own}, {"kubernetes", primary, own}, {"kubernetes.default.svc", primary, own}, {"localhost", primary, own},
		{"api.example.com", primary, people}, {"API.example.com", primary, people}, {"unknown.example.com", primary, people},
		{"node-1", primary, people}, {"node-1", bare, own}, {"node-1", nil, own},
		{"x.apps.example.com", primary, wild}, {"X.Apps.Example.com", nil, wild}, {"x.y.apps.example.com", primary, people},
		{"ignored.example.com", nil, own},
	} {
		get := ServingCertificates(func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return own, nil }, tt.primary, []*CertificateFile{named})
		if got, err := get(&tls.ClientHelloInfo{ServerName: tt.name}); err != nil || got != tt.want {
			t.Errorf("%q: %v, %v", tt.name, subject(got), err)
		}
	}
	if err := primary.Take(t.Context(), [][]byte{[]byte("x"), []byte("y")}); err == nil || primary.now.Load() != people {
		t.Errorf("a broken pair is taken over: %v", err)
	}
}

func subject(c *tls.Certificate) []string {
	if c == nil {
		return nil
	}
	return c.Leaf.DNSNames
}

// TestFollowChain replaces the chain of authorizers under a running server.
func TestFollowChain(t *testing.T) {
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n"
	const deny, allow = "- {type: AlwaysDeny, name: alwaysdeny}\n", "- {type: AlwaysAllow, name: alwaysallow}\n"
	log := slog.New(slog.DiscardHandler)
	path := filepath.Join(t.TempDir(), "first")
	if err := os.WriteFile(path, []byte(head+deny), 0o600); err != nil {
		t.Fatal(err)
	}
	z := Authorization{File: path}
	chain, err := z.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	a := NewAuthorizer(AuthorizerConfig{Cache: client.NewFake().Cache(), Chain: chain})
	var said strings.Builder
	file := follow(t, head+deny, reload.Config{Take: z.Follow(a, chain, log), Log: slog.New(slog.NewTextHandler(&said, nil))})
	for _, tt := range []struct {
		text    string
		allowed bool
		err     string // "": taken over
	}{
		{head + "# all as before\n" + deny, false, ""},
		{head + deny + allow, true, ""},
		{head + allow, true, "missing required types: [AlwaysDeny]"},
		{head + deny + "- {type: Node, name: node}\n", true, "authorizer type Node is not allowed if it was not enabled at initial server startup"},
		{head + deny + deny, true, "Duplicate value"},
		{"", true, "first"},
		{head + deny, false, ""},
	} {
		said.Reset()
		file.change(tt.text)
		d, _, err := a.Authorize(t.Context(), authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "jane"}, Verb: "get", Path: "/x"})
		if (d == authorizer.DecisionAllow) != tt.allowed || err != nil {
			t.Errorf("%s: %v, %v", tt.text, d, err)
		}
		if tt.err == "" && !strings.Contains(said.String(), "file reloaded") || !strings.Contains(said.String(), tt.err) {
			t.Errorf("%s:\n%s, want %q", tt.text, said.String(), tt.err)
		}
	}
}
