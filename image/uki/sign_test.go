package uki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

func certs(c ...*x509.Certificate) []*x509.Certificate { return c }

// keyPair is a key and a certificate of it that has long expired.
func keyPair(t testing.TB, name string) (*rsa.PrivateKey, *x509.Certificate) {
	t.Helper()
	return rsaKey(), certificate(t, name, rsaKey(), nil, rsaKey())
}

func certificate(t testing.TB, name string, key *rsa.PrivateKey, parent *x509.Certificate, by *rsa.PrivateKey) *x509.Certificate {
	t.Helper()
	c := &x509.Certificate{
		SerialNumber: big.NewInt(int64(len(name)) + 7), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Unix(1e9, 0), NotAfter: time.Unix(1e9+1, 0), IsCA: true, BasicConstraintsValid: true,
	}
	if parent == nil {
		parent = c
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), by)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func signedSample(t testing.TB) []byte {
	t.Helper()
	key, cert := keyPair(t, "db")
	b, err := Build(testStub("x"), sample())
	if err != nil {
		t.Fatal(err)
	}
	b, err = Sign(b, key, cert)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSign(t *testing.T) {
	key, cert := keyPair(t, "db")
	for name, stub := range stubs(t) {
		unsigned, err := Build(stub, sample())
		if err != nil {
			t.Fatal(err)
		}
		signed, err := Sign(unsigned, key, cert)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Sign(unsigned, key, cert); err != nil || !bytes.Equal(again, signed) {
			t.Errorf("%s: signed twice, it is not the same: %v", name, err)
		}
		if off, err := Unsign(signed); err != nil || !bytes.Equal(off, append(bytes.Clone(unsigned), make([]byte, -len(unsigned)&7)...)) {
			t.Errorf("%s: without its signature it is not the one before: %v", name, err)
		}
		if err := Verify(signed, certs(certificate(t, "other one", key, nil, key), cert)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, err := Read(signed); err != nil || got.Cmdline != sample().Cmdline {
			t.Errorf("%s: signed, it reads %+v, %v", name, got, err)
		}
		if err := Verify(unsigned, certs(cert)); err == nil {
			t.Errorf("%s: verified without a signature", name)
		}
		if _, err := Sign(signed, key, cert); err == nil {
			t.Errorf("%s: signed once more", name)
		}
	}
}

// Whatever byte is changed, nothing that is run or believed changes unnoticed.
func TestEveryByteCounts(t *testing.T) {
	signed := signedSample(t)
	_, cert := keyPair(t, "db")
	f, err := parsePE(signed)
	if err != nil {
		t.Fatal(err)
	}
	at, _ := f.certificates()
	for i := range signed {
		if i > 1100 && i < int(at) && i%97 != 0 {
			continue // the inside of sections is all the same
		}
		b := bytes.Clone(signed)
		b[i] ^= 0x01
		ok := Verify(b, certs(cert)) == nil
		free := i >= f.opt+optChecksum && i < f.opt+optChecksum+4
		// In the signature itself there are bytes that nobody reads: padding, and
		// the certificate where the trusted one is at hand.
		if ok && !free && i < int(at) {
			t.Errorf("byte %d was changed, and it is verified", i)
		}
	}
}

func TestVerifyChain(t *testing.T) {
	root := rsaKey()
	ca := certificate(t, "ca", root, nil, root)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	leaf := certificate(t, "leaf", key, ca, root)
	b, err := Build(testStub(""), sample())
	if err != nil {
		t.Fatal(err)
	}
	if b, err = Sign(b, key, leaf); err != nil {
		t.Fatal(err)
	}
	if err := Verify(b, certs(ca)); err != nil {
		t.Error(err)
	}
	if err := Verify(b, certs(certificate(t, "another ca", root, nil, root))); err == nil {
		t.Error("verified by a CA of another name")
	}
	if err := Verify(b, nil); err == nil {
		t.Error("verified by nobody")
	}
	if _, err := Sign(testStub(""), root, leaf); err == nil {
		t.Error("signed with another key than the certificate's")
	}
	curve, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if _, err := Sign(testStub(""), crypto.Signer(curve), leaf); err == nil {
		t.Error("signed with a key that firmware does not know")
	}
}

// Two other implementations agree: sbverify with what is signed here, and
// Verify with what sbsign signs.
func TestSbsign(t *testing.T) {
	dir := t.TempDir()
	for _, tool := range []string{"sbsign", "sbverify"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	key, cert := keyPair(t, "db")
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	keyFile := write("key", pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	certFile := write("cert", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}))
	programs := map[string][]byte{}
	for name, stub := range stubs(t) {
		b, err := Build(stub, sample())
		if err != nil {
			t.Fatal(err)
		}
		programs[name] = b
	}
	if path := os.Getenv("WRIT_EFI_STUB"); path != "" {
		for _, name := range []string{"systemd-bootx64.efi", "addonx64.efi.stub"} {
			b, err := os.ReadFile(filepath.Join(filepath.Dir(path), name))
			if err != nil {
				t.Fatal(err)
			}
			programs[name] = b
		}
	}
	for name, unsigned := range programs {
		ours, err := Sign(unsigned, key, cert)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("sbverify", "--cert", certFile, write("ours", ours)).CombinedOutput(); err != nil {
			t.Errorf("%s: sbverify: %v\n%s", name, err, out)
		}
		theirs := filepath.Join(dir, "theirs")
		if out, err := exec.Command("sbsign", "--key", keyFile, "--cert", certFile, "--output", theirs, write("unsigned", unsigned)).CombinedOutput(); err != nil {
			t.Fatalf("sbsign: %v\n%s", err, out)
		}
		b, err := os.ReadFile(theirs)
		if err != nil {
			t.Fatal(err)
		}
		if err := Verify(b, certs(cert)); err != nil {
			t.Errorf("%s: signed by sbsign: %v", name, err)
		}
	}
}
