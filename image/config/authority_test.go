package config

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"
)

// issued is a certificate with its key, of itself.
func issued(ca bool, key crypto.Signer) Authority {
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "writ-ca"}, IsCA: ca, BasicConstraintsValid: true,
		NotBefore: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2036, 1, 1, 0, 0, 0, 0, time.UTC)}
	cert, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		panic(err)
	}
	block := &pem.Block{Type: "PRIVATE KEY"}
	if k, ok := key.(*ecdsa.PrivateKey); ok {
		block.Type = "EC PRIVATE KEY"
		block.Bytes, err = x509.MarshalECPrivateKey(k)
	} else {
		block.Bytes, err = x509.MarshalPKCS8PrivateKey(key)
	}
	if err != nil {
		panic(err)
	}
	return Authority{Certificate: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})), Key: string(pem.EncodeToMemory(block))}
}

func newKey() crypto.Signer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
}

func newRSA() crypto.Signer {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
}

// inYAML is an authority as people write one.
func inYAML(a Authority) string {
	lines := func(s string) string {
		return "    " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n    ") + "\n"
	}
	return "authority:\n  certificate: |\n" + lines(a.Certificate) + "  key: |\n" + lines(a.Key)
}

var (
	authority     = issued(true, newKey())
	authorityYAML = inYAML(authority)
	leafYAML      = inYAML(issued(false, newKey()))
	rsaYAML       = inYAML(issued(true, newRSA()))
	otherKeyYAML  = inYAML(Authority{authority.Certificate, issued(true, newKey()).Key})
)

// twice has the certificate two times.
func twice(string) string {
	return inYAML(Authority{authority.Certificate + authority.Certificate, authority.Key})
}

// secretLines are the lines of the key that nobody else has.
func secretLines() []string {
	lines := strings.Split(strings.TrimSpace(authority.Key), "\n")
	return lines[1 : len(lines)-1]
}

// TestAuthorityIsNotSaid finds nothing of a key in any finding.
func TestAuthorityIsNotSaid(t *testing.T) {
	good := "role: server\n" + authorityYAML
	bad := []string{good + "x: 1\n", "role: server\n" + strings.Replace(authorityYAML, "MHcC", "MHcD", 1), furtherYAML + authorityYAML, agentYAML + authorityYAML,
		"role: server\nauthority: |\n" + authorityYAML, strings.Replace(good, "  key: |", "  key:\n   - |", 1), strings.Replace(good, "key:", "kee:", 1),
		"role: |\n  " + strings.ReplaceAll(authority.Key, "\n", "\n  ") + "\n", "role: server\nnodeName: |\n  " + strings.ReplaceAll(authority.Key, "\n", "\n  ") + "\n",
		strings.Replace(good, "-----BEGIN EC", "-----BEGIN DSA", 1), inYAML(Authority{authority.Key, authority.Key}) + "role: server\n"}
	for _, data := range bad {
		_, fs := Parse("n", []byte(data))
		if len(fs) == 0 {
			t.Errorf("taken:\n%s", data)
		}
		for _, f := range fs {
			for _, line := range secretLines() {
				if strings.Contains(Say(f), line[:8]) {
					t.Error(Say(f))
				}
			}
		}
	}
}

func TestExpired(t *testing.T) {
	data := "role: server\n# ours\n" + authorityYAML
	n := parsed(t, data)
	if fs := Expired("n", []byte(data), n, time.Date(2035, 12, 31, 0, 0, 0, 0, time.UTC)); len(fs) > 0 {
		t.Error(Say(fs[0]))
	}
	fs := Expired("n", []byte(data), n, time.Date(2036, 1, 2, 0, 0, 0, 0, time.UTC))
	if len(fs) != 1 || Say(fs[0]) != "n:4:3: authority.certificate: has expired on 2036-01-01" {
		t.Errorf("%+v", fs)
	}
	if fs := Expired("n", nil, Node{}, time.Now()); len(fs) > 0 {
		t.Error(Say(fs[0]))
	}
}

// TestWithAuthority keeps what people wrote, whatever it ends with, or refuses.
func TestWithAuthority(t *testing.T) {
	for _, data := range []string{"role: server", "role: server\n", "# first\nrole: server # here\n\n\n", serverYAML, "---\nrole: server\n",
		"repository:\n  url: ssh://git@a/b\n  knownHosts: |\n    a ssh-ed25519 AAAA\nrole: server\n",
		"role: server\nrepository:\n  url: ssh://git@a/b\n  knownHosts: |\n    a ssh-ed25519 AAAA"} {
		got, err := WithAuthority([]byte(data), authority)
		if err != nil {
			t.Errorf("%q: %v", data, err)
			continue
		}
		n := parsed(t, string(got))
		if !strings.HasPrefix(string(got), data) || n.Authority == nil || *n.Authority != authority {
			t.Errorf("%q: %+v", data, n.Authority)
		}
	}
	for data, want := range map[string]string{
		"{role: server}":                 "without braces",
		"  role: server\n":               "cannot stand behind",
		"role: server\n...\n":            "cannot stand behind",
		"rol: server":                    "has mistakes",
		"role: server\n" + authorityYAML: "cannot stand behind",
	} {
		_, err := WithAuthority([]byte(data), authority)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", data, err)
		}
	}
}

func TestURL(t *testing.T) {
	static := &Network{Interfaces: []Interface{{}, {Addresses: []string{"192.0.2.7/24", "192.0.2.8/24"}}}}
	for _, c := range []struct {
		n    Node
		want string
	}{
		{Node{}, ""},
		{Node{Listen: "127.0.0.1:6443", Network: static}, ""},
		{Node{Network: static}, "https://192.0.2.7:6443"},
		{Node{Network: static, Listen: "0.0.0.0:7443"}, "https://192.0.2.7:7443"},
		{Node{Network: static, Listen: "[::]:7443"}, "https://192.0.2.7:7443"},
		{Node{Network: static, Listen: "192.0.2.9:7443"}, "https://192.0.2.9:7443"},
		{Node{Network: static, NodeIP: "192.0.2.8"}, "https://192.0.2.8:6443"},
		{Node{NodeIP: "2001:db8::1"}, "https://[2001:db8::1]:6443"},
		{Node{NodeIP: "192.0.2.8", ExternalURL: "https://writ.example.com"}, "https://writ.example.com"},
		{Node{NodeIP: "192.0.2.8", ExternalURL: "http://writ.example.com"}, "https://192.0.2.8:6443"},
	} {
		if got := c.n.URL(); got != c.want {
			t.Errorf("%+v: %s, want %s", c.n, got, c.want)
		}
	}
}

// TestDecideFirst: the authority and the token of a first server.
func TestDecideFirst(t *testing.T) {
	n := parsed(t, "role: server\nnodeName: a\ntoken: abcdef.0123456789abcdef\n"+authorityYAML)
	const plain = "--node-name a --listen 0.0.0.0:6443"
	for _, c := range []struct {
		name     string
		have     string
		args     string
		files    bool
		warnings int
	}{
		{"new", "", plain + " --authority /run/writ/authority", true, 0},
		{"the same", authority.Certificate + "\n", plain, false, 0},
		{"another", issued(true, newKey()).Certificate, plain, false, 1},
		{"damaged", "x", plain, false, 1},
	} {
		facts := Facts{Name: "x"}
		if c.have != "" {
			facts.Authority = []byte(c.have)
		}
		p := Decide(n, facts)
		fs := files(p)
		env, err := readEnv(fs["/run/writ/server.env"])
		if err != nil || env["WRIT_ARGS"] != c.args || env["WRIT_AGENT_TOKEN"] != "abcdef.0123456789abcdef" || env["WRIT_TOKEN"] != "" {
			t.Errorf("%s: %q, %v", c.name, env, err)
		}
		if strings.Contains(fs["/run/writ/agent.env"], "abcdef") {
			t.Errorf("%s: the agent has the token", c.name)
		}
		if got := fs["/run/writ/authority/ca.crt"] == authority.Certificate && fs["/run/writ/authority/ca.key"] == authority.Key; got != c.files {
			t.Errorf("%s: files %v", c.name, slices.Sorted(maps.Keys(fs)))
		}
		if len(p.Warnings) != c.warnings {
			t.Errorf("%s: %q", c.name, p.Warnings)
		}
		for _, f := range p.Files {
			if strings.Contains(string(f.Data), secretLines()[0]) && f.Mode != 0o600 {
				t.Errorf("%s has mode %o", f.Path, f.Mode)
			}
		}
	}
}

func TestDecideFurther(t *testing.T) {
	p := Decide(parsed(t, furtherYAML), Facts{Name: "b", Authority: []byte("of the cluster")})
	fs := files(p)
	env, err := readEnv(fs["/run/writ/server.env"])
	if err != nil || env["WRIT_ARGS"] != "--node-name b --listen 0.0.0.0:6443 --server https://192.0.2.7:6443 --ca-hash "+hash || env["WRIT_TOKEN"] != "abcdef.0123456789abcdef" || len(env) != 2 {
		t.Errorf("server.env: %q, %v", env, err)
	}
	env, err = readEnv(fs["/run/writ/agent.env"])
	if err != nil || env["WRIT_ARGS"] != "--node-name b" || len(env) != 1 || len(p.Warnings) > 0 {
		t.Errorf("agent.env: %q, %v, %q", env, err, p.Warnings)
	}
}

// TestEraseAuthority takes the key alone: a machine that loses /var must not
// begin another cluster by what is left.
func TestEraseAuthority(t *testing.T) {
	for _, data := range []string{"role: server\ntoken: abcdef.0123456789abcdef\n" + authorityYAML, "role: server\n# " + secretLines()[0] + "\n" + authorityYAML} {
		got, erased, err := Erase([]byte(data))
		if err != nil || !erased {
			t.Fatal(err)
		}
		for _, secret := range append(secretLines(), "abcdef.0123456789abcdef") {
			if strings.Contains(string(got), secret) {
				t.Errorf("%q is left in\n%s", secret, got)
			}
		}
		if _, fs := Parse("n", got); len(fs) == 0 {
			t.Errorf("what is left begins a cluster:\n%s", got)
		}
	}
}
