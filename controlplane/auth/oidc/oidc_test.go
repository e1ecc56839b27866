package oidc

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// issuer is an OpenID Connect provider.
type issuer struct {
	*testing.T
	key *ecdsa.PrivateKey
	url string
	ca  string // file
}

func newIssuer(t *testing.T, hang bool) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{T: t, key: key}
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hang {
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/keys") {
			point, _ := key.PublicKey.Bytes()
			b64 := base64.RawURLEncoding.EncodeToString
			_ = json.NewEncoder(w).Encode(map[string]any{"keys": []map[string]string{{"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "1", "x": b64(point[1:33]), "y": b64(point[33:])}}})
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": i.url, "jwks_uri": i.url + "/keys", "id_token_signing_alg_values_supported": []string{"ES256"}})
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	i.url, i.ca = s.URL, filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(i.ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return i
}

func (i *issuer) token(key *ecdsa.PrivateKey, claims jwt.MapClaims) string {
	i.Helper()
	all := jwt.MapClaims{"iss": i.url, "aud": "writ", "sub": "jane", "exp": time.Now().Add(time.Hour).Unix()}
	for k, v := range claims {
		all[k] = v
	}
	t := jwt.NewWithClaims(jwt.SigningMethodES256, all)
	t.Header["kid"] = "1"
	s, err := t.SignedString(key)
	if err != nil {
		i.Fatal(err)
	}
	return s
}

// tampered changes a claim and keeps the signature.
func tampered(token string) string {
	parts := strings.Split(token, ".")
	claims, _ := base64.RawURLEncoding.DecodeString(parts[1])
	parts[1] = base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(claims), "jane", "root", 1)))
	return strings.Join(parts, ".")
}

func open(t *testing.T, cfg Config) *Authenticator {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	a, err := Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// ready waits until the issuer's keys are known.
func ready(t *testing.T, a *Authenticator) *Authenticator {
	t.Helper()
	tick, late := time.NewTicker(5*time.Millisecond), time.After(20*time.Second)
	defer tick.Stop()
	for a.Check() != nil {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal(a.Check())
		}
	}
	return a
}

func TestFlags(t *testing.T) {
	i := newIssuer(t, false)
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := ready(t, open(t, Config{Flags: &Flags{IssuerURL: i.url, ClientID: "writ", CAFile: i.ca, GroupsClaim: "groups", GroupsPrefix: "oidc:",
		SigningAlgs: []string{"ES256"}, RequiredClaims: map[string]string{"tenant": "acme"}}}))
	acme := jwt.MapClaims{"tenant": "acme", "groups": []string{"dev", "ops"}}
	with := func(k string, v any) jwt.MapClaims {
		c := jwt.MapClaims{k: v}
		for k, v := range acme {
			if _, ok := c[k]; !ok {
				c[k] = v
			}
		}
		return c
	}
	for _, tt := range []struct{ name, token, want string }{
		{"good", i.token(i.key, acme), i.url + "#jane [oidc:dev oidc:ops]"},
		{"one group", i.token(i.key, with("groups", "dev")), i.url + "#jane [oidc:dev]"},
		{"of another key", i.token(other, acme), "!failed to verify signature"},
		{"tampered", tampered(i.token(i.key, acme)), "!failed to verify signature"},
		{"expired", i.token(i.key, with("exp", time.Now().Add(-time.Hour).Unix())), "!expired"},
		{"for another client", i.token(i.key, with("aud", "other")), "!audience"},
		{"without the required claim", i.token(i.key, nil), "!required claim tenant not present"},
		{"with another value of it", i.token(i.key, with("tenant", "evil")), "!required claim tenant value does not match"},
		{"of another issuer", i.token(i.key, with("iss", "https://elsewhere")), "?"},
		{"no JWT", "abc", "?"},
		{"not signed", strings.Join([]string{base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)), strings.Split(i.token(i.key, acme), ".")[1], ""}, "."), "!"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, ok, err := a.AuthenticateToken(t.Context(), tt.token)
			switch {
			case tt.want == "?":
				if ok || err != nil {
					t.Errorf("%v, %v, %v", r, ok, err)
				}
			case strings.HasPrefix(tt.want, "!"):
				if ok || err == nil || !strings.Contains(err.Error(), tt.want[1:]) {
					t.Errorf("%v, %v, %v", r, ok, err)
				}
			case !ok || fmt.Sprint(r.User.GetName(), " ", r.User.GetGroups()) != tt.want:
				t.Errorf("%v, %v, %v", r, ok, err)
			}
		})
	}
}

func TestFile(t *testing.T) {
	i := newIssuer(t, false)
	ca, err := os.ReadFile(i.ca)
	if err != nil {
		t.Fatal(err)
	}
	quoted, _ := json.Marshal(string(ca))
	path := filepath.Join(t.TempDir(), "authentication.yaml")
	text := fmt.Sprintf(`apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
anonymous: {enabled: true, conditions: [{path: /livez}]}
jwt:
- issuer: {url: %q, audiences: [writ], certificateAuthority: %s}
  claimMappings:
    username: {expression: "claims.sub + '@acme'"}
    groups: {claim: roles, prefix: "role:"}
  userValidationRules:
  - {expression: "!user.username.startsWith('system:')", message: no system users}
`, i.url, quoted)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a := ready(t, open(t, Config{File: path}))
	if a.Anonymous == nil || !a.Anonymous.Enabled || a.Anonymous.Conditions[0].Path != "/livez" {
		t.Errorf("anonymous: %v", a.Anonymous)
	}
	r, ok, err := a.AuthenticateToken(t.Context(), i.token(i.key, jwt.MapClaims{"roles": []string{"dev"}}))
	if !ok || fmt.Sprint(r.User.GetName(), r.User.GetGroups()) != "jane@acme[role:dev]" {
		t.Errorf("%v, %v, %v", r, ok, err)
	}
	if r, ok, err := a.AuthenticateToken(t.Context(), i.token(i.key, jwt.MapClaims{"roles": []string{}, "sub": "system:admin"})); ok || err == nil {
		t.Errorf("%v, %v", r, err)
	}
}

// TestHangingIssuer: a start does not wait for an issuer, nor does a request.
func TestHangingIssuer(t *testing.T) {
	i := newIssuer(t, true)
	a := open(t, Config{Flags: &Flags{IssuerURL: i.url, ClientID: "writ", CAFile: i.ca, SigningAlgs: []string{"ES256"}}})
	began := time.Now()
	if r, ok, err := a.AuthenticateToken(t.Context(), i.token(i.key, nil)); ok || err == nil || !strings.Contains(err.Error(), "not initialized") {
		t.Errorf("%v, %v, %v", r, ok, err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("a request took %v", took)
	}
	if a.Check() == nil {
		t.Error("the check is happy")
	}
}

func TestRefusedConfigurations(t *testing.T) {
	path := filepath.Join(t.TempDir(), "authentication.yaml")
	for text, want := range map[string]string{
		"": "empty config data",
		"apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt: [{}]\n":  "issuer.url",
		"apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\nnothing: 1\n": "unknown field",
		"apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n":                 "expected AuthenticationConfiguration",
		strings.Repeat("#", maxFile+1): "larger than",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), Config{File: path}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
	for _, cfg := range []Config{{}, {File: path, Flags: &Flags{}}, {Flags: &Flags{IssuerURL: "https://x"}}, {Flags: &Flags{IssuerURL: "http://x", ClientID: "y"}},
		{Flags: &Flags{IssuerURL: "https://own", ClientID: "y"}, Disallowed: []string{"https://own"}}} {
		if _, err := Open(t.Context(), cfg); err == nil {
			t.Errorf("%+v is taken", cfg.Flags)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt: []\n"))
	f.Add([]byte("{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := Decode(data); err == nil && c == nil {
			t.Error("nothing decoded")
		}
	})
}
