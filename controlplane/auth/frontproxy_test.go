package auth

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/writ-os/writ/controlplane/auth/pki"
)

// withFrontProxy returns an authenticator with both CAs.
func withFrontProxy(t *testing.T) (a *Authenticator, clients, proxies *pki.Authority) {
	t.Helper()
	dir := t.TempDir()
	clients, err := pki.Open(pki.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if proxies, err = pki.OpenFrontProxy(pki.Config{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	a = NewAuthenticator(AuthenticatorConfig{CAs: clients, Anonymous: true, FrontProxy: DefaultFrontProxy(proxies, "front-proxy-client")})
	return a, clients, proxies
}

func request(t *testing.T, cert *x509.Certificate, headers ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, "=")
		r.Header.Add(name, value)
	}
	if cert != nil {
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
	}
	return r
}

func TestFrontProxy(t *testing.T) {
	a, clients, proxies := withFrontProxy(t)
	issue := func(ca *pki.Authority, name string, ttl time.Duration) *x509.Certificate {
		p, err := ca.IssueClient(pki.Client{User: name, TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		return p.Leaf
	}
	proxy := issue(proxies, "front-proxy-client", 0)
	for _, tt := range []struct {
		name    string
		cert    *x509.Certificate
		headers []string
		want    string // user, uid, groups, extra; or an error after "!"
	}{
		{"good", proxy, []string{"X-Remote-User=jane", "X-Remote-Uid=7", "X-Remote-Group=b", "X-Remote-Group=a", "X-Remote-Group=", "X-Remote-Extra-Acme%2fTeam=x", "x-remote-extra-scopes=y"},
			"jane 7 [b a system:authenticated] map[acme/team:[x] scopes:[y]]"},
		{"the user's own claim of a group", proxy, []string{"X-Remote-User=jane", "X-Remote-Group=system:unauthenticated"}, "jane  [system:unauthenticated] map[]"},
		{"no user", proxy, []string{"X-Remote-Group=system:masters"}, "!unknown authority"},
		{"proxy of another name", issue(proxies, "other", 0), []string{"X-Remote-User=jane"}, "!x509: subject with cn=other is not in the allowed list"},
		{"expired proxy", issue(proxies, "front-proxy-client", -time.Minute), []string{"X-Remote-User=jane"}, "!expired"},
		{"a client is no proxy", issue(clients, "front-proxy-client", 0), []string{"X-Remote-User=root", "X-Remote-Group=system:masters"}, "front-proxy-client  [system:authenticated]"},
		{"without a certificate", nil, []string{"X-Remote-User=root"}, "system:anonymous  [system:unauthenticated] map[]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := request(t, tt.cert, tt.headers...)
			u, ok, err := a.Authenticate(r)
			if want, bad := strings.CutPrefix(tt.want, "!"); bad {
				if ok || err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, %v, %v", u, ok, err)
				}
				return
			}
			if !ok || err != nil {
				t.Fatal(ok, err)
			}
			if got := fmt.Sprintf("%s %s %v %v", u.GetName(), u.GetUID(), u.GetGroups(), u.GetExtra()); !strings.HasPrefix(got, tt.want) {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			for h := range r.Header {
				if strings.HasPrefix(strings.ToLower(h), "x-remote-") && tt.name == "good" {
					t.Errorf("%s is still there", h)
				}
			}
		})
	}
}

func TestExtensionAuthentication(t *testing.T) {
	_, clients, proxies := withFrontProxy(t)
	cm, err := ExtensionAuthentication(clients.CAPEM(), proxies.CAPEM(), DefaultFrontProxy(proxies))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"client-ca-file": string(clients.CAPEM()), "requestheader-client-ca-file": string(proxies.CAPEM()),
		"requestheader-allowed-names": `[]`, "requestheader-username-headers": `["X-Remote-User"]`, "requestheader-uid-headers": `["X-Remote-Uid"]`,
		"requestheader-group-headers": `["X-Remote-Group"]`, "requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
	}
	have, _ := json.Marshal(cm.Data)
	if w, _ := json.Marshal(want); string(have) != string(w) || cm.Namespace != "kube-system" {
		t.Errorf("have %s\nwant %s", have, w)
	}
	if string(clients.CAPEM()) == string(proxies.CAPEM()) {
		t.Error("one CA for clients and proxies")
	}
	if cm, err := ExtensionAuthentication(clients.CAPEM(), nil, nil); err != nil || len(cm.Data) != 1 {
		t.Errorf("without a proxy: %v, %v", cm.Data, err)
	}
}

// TestOrder: as upstream, a good credential wins over a bad one, and a bad one
// alone is not anonymous.
func TestOrder(t *testing.T) {
	a, clients, _ := withFrontProxy(t)
	a.cfg.Passwords = passwords{"jane": "pw"}
	good, err := clients.IssueClient(pki.Client{User: "cert"})
	if err != nil {
		t.Fatal(err)
	}
	bad, err := clients.IssueClient(pki.Client{User: "late", TTL: -time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	basic := func(name, password string) string {
		r := request(t, nil)
		r.SetBasicAuth(name, password)
		return "Authorization=" + r.Header.Get("Authorization")
	}
	for _, tt := range []struct {
		cert   *x509.Certificate
		header string
		want   string
	}{
		{good.Leaf, basic("jane", "pw"), "cert"},
		{bad.Leaf, basic("jane", "pw"), "jane"},
		{bad.Leaf, basic("jane", "no"), "[verify client certificate"},
		{nil, basic("jane", "no"), "invalid username/password combination"},
		{bad.Leaf, "X=y", "verify client certificate"},
	} {
		r := request(t, tt.cert, tt.header)
		u, ok, err := a.Authenticate(r)
		got := fmt.Sprint(err)
		if ok {
			got = u.GetName()
		}
		if !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: got %s", tt.want, got)
		}
		if got == "jane" && r.Header.Get("Authorization") != "" {
			t.Error("the password is still in the request")
		}
	}
	a.cfg.AnonymousPaths = []string{"/livez"}
	if _, ok, err := a.Authenticate(request(t, nil)); ok || err != nil {
		t.Errorf("anonymous elsewhere: %v, %v", ok, err)
	}
	r := request(t, nil)
	r.URL.Path = "/livez"
	if u, ok, _ := a.Authenticate(r); !ok || !slices.Contains(u.GetGroups(), user.AllUnauthenticated) {
		t.Error("not anonymous where it is allowed")
	}
}

type passwords map[string]string

func (p passwords) Authenticate(name, password string) (user.Info, bool) {
	return &user.DefaultInfo{Name: name}, p[name] == password
}
