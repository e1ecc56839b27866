package auth

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sort"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/auth/pki"
	"github.com/writ-os/writ/controlplane/auth/token"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is an HTTPS server that answers with whom it takes a client for.
type server struct {
	*testing.T
	authority *pki.Authority
	tokens    *token.Authority
	fake      *client.Fake
	url       string
	late      atomic.Int64 // nanoseconds that the authenticator's clock is ahead
}

func newServer(t *testing.T, anonymous bool) *server {
	t.Helper()
	s := &server{T: t}
	var err error
	if s.authority, err = pki.Open(pki.Config{Dir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	s.fake = client.NewFake(&corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "sa-uid"}})
	if s.tokens, err = token.New(token.Config{Key: s.authority.ServiceAccountKey(), Cache: s.fake.Cache()}); err != nil {
		t.Fatal(err)
	}
	a := NewAuthenticator(AuthenticatorConfig{CAs: s.authority, Tokens: s.tokens, Anonymous: anonymous,
		Now: func() time.Time { return time.Now().Add(time.Duration(s.late.Load())) }})
	h := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, ok, err := a.Authenticate(r)
		if err != nil || !ok {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, err)
			return
		}
		groups := append([]string{}, u.GetGroups()...)
		sort.Strings(groups)
		fmt.Fprintf(w, "%s %s %s", u.GetName(), strings.Join(groups, ","), r.Header.Get("Authorization"))
	}))
	serving := s.authority.NewServingCertificate(pki.Serving{Name: "kube-apiserver", Hosts: []string{"127.0.0.1"}})
	h.Listener = tls.NewListener(h.Listener, TLSConfig(serving.Get, s.authority))
	h.Start()
	t.Cleanup(h.Close)
	s.url = "https://" + h.Listener.Addr().String()
	return s
}

// as returns a client with a certificate; with none for nil.
func (s *server) as(pair *pki.KeyPair) *http.Client {
	cfg := &tls.Config{RootCAs: s.authority.Pool()}
	if pair != nil {
		// Go's client leaves out a certificate of a CA that the server does
		// not name; an attacker's does not.
		c := pair.TLS()
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &c, nil }
	}
	tr := &http.Transport{TLSClientConfig: cfg}
	s.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// ask returns the answer to a request with an Authorization header.
func (s *server) ask(c *http.Client, authorization string) (int, string) {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), http.MethodGet, s.url, nil)
	if err != nil {
		s.Fatal(err)
	}
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	resp, err := c.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func (s *server) issue(c pki.Client) *pki.KeyPair {
	s.Helper()
	p, err := s.authority.IssueClient(c)
	if err != nil {
		s.Fatal(err)
	}
	return p
}

func (s *server) token() string {
	s.Helper()
	tr, err := s.tokens.Request(s.Context(), schema.Key{Namespace: "shop", Name: "web"}, &authenticationv1.TokenRequest{})
	if err != nil {
		s.Fatal(err)
	}
	return tr.Status.Token
}

func TestCertificates(t *testing.T) {
	s := newServer(t, true)
	foreign, err := pki.Open(pki.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := foreign.IssueClient(pki.Client{User: "root", Groups: []string{"system:masters"}})
	if err != nil {
		t.Fatal(err)
	}
	asServer, err := s.authority.IssueServing(pki.Serving{Name: "root", Hosts: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		pair *pki.KeyPair
		code int
		want string
	}{
		{"good", s.issue(pki.Client{User: "jane", Groups: []string{"b", "a"}}), 200, "jane a,b,system:authenticated "},
		{"of another CA", stranger, 401, "unknown authority"},
		{"of a server", asServer, 401, "incompatible key usage"},
		{"expired", s.issue(pki.Client{User: "jane", TTL: -time.Minute}), 401, "expired"},
		{"without a name", s.issue(pki.Client{Groups: []string{"system:masters"}}), 200, "system:anonymous system:unauthenticated "},
		{"none", nil, 200, "system:anonymous system:unauthenticated "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, body := s.ask(s.as(tt.pair), "")
			if code != tt.code || !strings.Contains(body, tt.want) {
				t.Errorf("got %d %s, want %d %s", code, body, tt.code, tt.want)
			}
		})
	}
}

// TestCertificateExpiresOnOpenConnection: what was verified once is not good
// for ever, however long the connection lasts.
func TestCertificateExpiresOnOpenConnection(t *testing.T) {
	s := newServer(t, true)
	c := s.as(s.issue(pki.Client{User: "jane", TTL: pki.BreakGlass}))
	for i := range 3 {
		if code, body := s.ask(c, ""); code != 200 {
			t.Fatalf("request %d: %d %s", i, code, body)
		}
	}
	s.late.Store(int64(61 * time.Minute))
	if code, body := s.ask(c, ""); code != 401 {
		t.Errorf("after an hour: %d %s", code, body)
	}
}

// TestTamperedCertificate changes the groups in a certificate that was seen
// before: the signature does not fit any more.
func TestTamperedCertificate(t *testing.T) {
	s := newServer(t, false)
	good := s.issue(pki.Client{User: "jane", Groups: []string{"writ:viewers__"}})
	if code, body := s.ask(s.as(good), ""); code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	bad := *good
	raw := strings.Replace(string(good.Leaf.Raw), "writ:viewers__", "system:masters", 1)
	leaf, err := x509.ParseCertificate([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	if leaf.Subject.Organization[0] != "system:masters" {
		t.Fatalf("not tampered: %v", leaf.Subject)
	}
	bad.Leaf = leaf
	if code, body := s.ask(s.as(&bad), ""); code != 401 {
		t.Errorf("%d %s", code, body)
	}
}

func TestBearerTokens(t *testing.T) {
	s := newServer(t, true)
	good := s.token()
	for _, tt := range []struct {
		name, header string
		code         int
		want         string
	}{
		{"good", "Bearer " + good, 200, "system:serviceaccount:shop:web system:authenticated,system:serviceaccounts,system:serviceaccounts:shop "},
		{"other case", "bearer " + good, 200, "system:serviceaccount:shop:web"},
		{"wrong", "Bearer abc", 401, "invalid bearer token"},
		{"tampered", "Bearer " + good[:len(good)-4] + "AAAA", 401, "signature is invalid"},
		// As upstream: what is not configured is no credential.
		{"empty", "Bearer ", 200, "system:anonymous"},
		{"basic", "Basic amFuZTpzZWNyZXQ=", 200, "system:anonymous"},
		{"none", "", 200, "system:anonymous"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, body := s.ask(s.as(nil), tt.header)
			if code != tt.code || !strings.Contains(body, tt.want) {
				t.Errorf("got %d %s, want %d %s", code, body, tt.code, tt.want)
			}
			if tt.code == 200 && strings.Contains(body, "Bearer ey") {
				t.Errorf("the token is still in the request: %s", body)
			}
		})
	}
}

// TestTokenAsPassword: below the paths that allow it, the password of basic
// authentication is a token.
func TestTokenAsPassword(t *testing.T) {
	s := newServer(t, true)
	a := NewAuthenticator(AuthenticatorConfig{Tokens: s.tokens, Anonymous: true, TokenPaths: []string{"/git/"}})
	filed := NewAuthenticator(AuthenticatorConfig{Tokens: s.tokens, Passwords: passwords{"jane": "pw"}, TokenPaths: []string{"/git/"}})
	for _, tt := range []struct {
		a              *Authenticator
		path, password string
		want           string
	}{
		{a, "/git/cluster.git/info/refs", s.token(), "system:serviceaccount:shop:web"},
		{a, "/git/cluster.git/info/refs", "abc", "invalid bearer token"},
		{a, "/git/cluster.git/info/refs", "", "invalid bearer token"},
		{a, "/api/v1/pods", s.token(), "system:anonymous"},
		{a, "/github/x", s.token(), "system:anonymous"},
		{filed, "/git/cluster.git/info/refs", "pw", "jane"},
		{filed, "/git/cluster.git/info/refs", s.token(), "system:serviceaccount:shop:web"},
		{filed, "/git/cluster.git/info/refs", "no", "invalid bearer token"},
		{filed, "/api/v1/pods", s.token(), "invalid username/password combination"},
	} {
		r := httptest.NewRequest(http.MethodGet, "https://writ"+tt.path, nil)
		r.SetBasicAuth("jane", tt.password)
		got := ""
		switch u, ok, err := tt.a.Authenticate(r); {
		case err != nil:
			got = err.Error()
		case ok:
			got = u.GetName()
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s with %.8s: %s, want %s", tt.path, tt.password, got, tt.want)
		}
		if known := got == "jane" || strings.HasPrefix(got, "system:serviceaccount"); known != (r.Header.Get("Authorization") == "") {
			t.Errorf("%s as %s: the password is still in the request", tt.path, got)
		}
	}
}

func TestNoAnonymous(t *testing.T) {
	s := newServer(t, false)
	if code, body := s.ask(s.as(nil), ""); code != 401 {
		t.Errorf("%d %s", code, body)
	}
}

func BenchmarkAuthenticateCertificate(b *testing.B) {
	authority, err := pki.Open(pki.Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	pair, err := authority.IssueClient(pki.Client{User: "jane"})
	if err != nil {
		b.Fatal(err)
	}
	a := NewAuthenticator(AuthenticatorConfig{CAs: authority})
	r := &http.Request{TLS: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{pair.Leaf}}}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok, err := a.Authenticate(r); !ok {
			b.Fatal(err)
		}
	}
}
