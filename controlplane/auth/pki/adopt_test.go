package pki

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func made(t *testing.T) (a *Authority, cert, key []byte) {
	t.Helper()
	a, err := Make(nil)
	if err != nil {
		t.Fatal(err)
	}
	if key, err = a.KeyPEM(); err != nil {
		t.Fatal(err)
	}
	return a, a.CAPEM(), key
}

// TestAdopt: what an authority issued before the folder existed is good in the
// folder, and nothing changes when it is adopted again.
func TestAdopt(t *testing.T) {
	a, cert, key := made(t)
	pair, err := a.IssueClient(Client{User: "jane"})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "pki")
	for range 2 {
		if err := Adopt(Config{Dir: dir}, cert, key); err != nil {
			t.Fatal(err)
		}
		b := open(t, dir)
		if !b.CA().Equal(a.CA()) || !b.key.Equal(a.key) {
			t.Fatal("the folder has another CA")
		}
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: b.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
			t.Error(err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, caKeyFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	_, other, otherKey := made(t)
	if err := Adopt(Config{Dir: dir}, other, otherKey); !errors.Is(err, ErrAnother) {
		t.Errorf("another one: %v", err)
	}
	if !open(t, dir).CA().Equal(a.CA()) {
		t.Error("another one was written")
	}
}

// TestAdoptAfterAKill leaves what a kill leaves: the key alone, or beside it a
// certificate that is not there yet.
func TestAdoptAfterAKill(t *testing.T) {
	_, cert, key := made(t)
	for name, leave := range map[string]func(dir string){
		"nothing":     func(string) {},
		"the key":     func(dir string) { write(t, dir, caKeyFile, string(key)) },
		"half a file": func(dir string) { write(t, dir, ".ca.crt.123", string(cert[:40])) },
	} {
		dir := t.TempDir()
		leave(dir)
		if err := Adopt(Config{Dir: dir}, cert, key); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := open(t, dir).CAPEM(); string(got) != string(cert) {
			t.Errorf("%s: another CA", name)
		}
	}
	dir := t.TempDir()
	_, _, other := made(t)
	write(t, dir, caKeyFile, string(other))
	if err := Adopt(Config{Dir: dir}, cert, key); !errors.Is(err, ErrAnother) {
		t.Errorf("the key of another CA is there: %v", err)
	}
}

func TestParse(t *testing.T) {
	a, cert, key := made(t)
	pkcs8 := func(key any) []byte {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	}
	leaf, err := a.IssueClient(Client{User: "jane"})
	if err != nil {
		t.Fatal(err)
	}
	_, _, other := made(t)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	later := func() time.Time { return time.Now().Add(11 * 365 * 24 * time.Hour) }
	for name, c := range map[string]struct {
		cert, key []byte
		now       func() time.Time
		want      string
	}{
		"SEC 1":       {cert, key, nil, ""},
		"PKCS #8":     {cert, pkcs8(a.key), nil, ""},
		"nothing":     {nil, nil, nil, "no certificate"},
		"no key":      {cert, []byte("x"), nil, "no PEM block"},
		"another key": {cert, other, nil, "is not that of its certificate"},
		"RSA":         {cert, pkcs8(rsaKey), nil, "no ECDSA key"},
		"no CA":       {leaf.CertPEM, leaf.KeyPEM, nil, "may not sign"},
		"expired":     {cert, key, later, "has expired"},
	} {
		got, err := Parse(c.cert, c.key, c.now)
		if c.want == "" {
			if err != nil || !got.CA().Equal(a.CA()) || !got.key.Equal(a.key) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}
