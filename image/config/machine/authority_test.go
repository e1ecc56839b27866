package machine

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/writ-os/writ/image/config"
)

func newAuthority(t *testing.T) config.Authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return config.Authority{Certificate: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})),
		Key: string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))}
}

// TestAuthority: a first server is handed the authority until it has it, the key
// leaves the EFI system partition, and an authority that the machine has stays.
func TestAuthority(t *testing.T) {
	b := newBench(t)
	a := newAuthority(t)
	whole, err := config.WithAuthority([]byte("role: server\nnodeName: one\ntoken: abcdef.0123456789abcdef\n"), a)
	if err != nil {
		t.Fatal(err)
	}
	secret := strings.Split(a.Key, "\n")[1]
	put(t, b.disks.esp+"/writ/node.yaml", string(whole))
	boot := func() string {
		t.Helper()
		if err := os.RemoveAll(b.Root + "/run"); err != nil {
			t.Fatal(err)
		}
		if err := New(b.Config).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		return get(t, b.Root+"/run/writ/server.env")
	}
	for range 2 { // the power may go before the server has it
		if env := boot(); !strings.Contains(env, "--authority /run/writ/authority") || !strings.Contains(env, `WRIT_AGENT_TOKEN="abcdef`) || strings.Contains(env, secret) {
			t.Errorf("server.env: %s", env)
		}
		if get(t, b.Root+"/run/writ/authority/ca.key") != a.Key || get(t, b.Root+"/run/writ/authority/ca.crt") != a.Certificate {
			t.Error("the server is not handed the authority")
		}
		if info, err := os.Stat(b.Root + "/run/writ/authority/ca.key"); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
	}
	if got := get(t, b.disks.esp+"/writ/node.yaml"); strings.Contains(got, secret) || strings.Contains(got, "abcdef") || !strings.Contains(got, "certificate: |") {
		t.Errorf("on the ESP: %s", got)
	}
	if got := get(t, b.Root+"/var/lib/writ/node.yaml"); got != string(whole) {
		t.Errorf("kept: %s", got)
	}
	put(t, b.Root+config.AuthorityFile, a.Certificate)
	if env := boot(); strings.Contains(env, "authority") || get(t, b.Root+"/run/writ/authority/ca.key") != "" {
		t.Errorf("server.env: %s", env)
	}
	if strings.Contains(b.console.String(), "does not count") {
		t.Errorf("console: %s", b.console)
	}
	put(t, b.Root+config.AuthorityFile, newAuthority(t).Certificate)
	if env := boot(); strings.Contains(env, "--authority") {
		t.Errorf("server.env: %s", env)
	}
	if n := strings.Count(b.console.String(), "the authority of this cluster stays the one that it began with"); n != 1 {
		t.Errorf("said %d times: %s", n, b.console)
	}
	if strings.Contains(b.console.String(), secret) || strings.Contains(b.console.String(), "abcdef") {
		t.Error("a secret is on the console")
	}
}

func TestFurtherServer(t *testing.T) {
	b := newBench(t)
	put(t, b.disks.esp+"/writ/node.yaml", "role: server\nserver: https://192.0.2.7:6443\ntoken: abcdef.0123456789abcdef\ncaHashes: [sha256:"+strings.Repeat("0", 64)+"]\n")
	if err := New(b.Config).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.console.String(), "a server of the cluster that has one at https://192.0.2.7:6443") {
		t.Errorf("console: %s", b.console)
	}
	if env := get(t, b.Root+"/run/writ/server.env"); !strings.Contains(env, "--server https://192.0.2.7:6443 --ca-hash sha256:0") || !strings.Contains(env, `WRIT_TOKEN="abcdef`) {
		t.Errorf("server.env: %s", env)
	}
	if env := get(t, b.Root+"/run/writ/agent.env"); strings.Contains(env, "abcdef") || strings.Contains(env, "--server") {
		t.Errorf("agent.env: %s", env)
	}
}
