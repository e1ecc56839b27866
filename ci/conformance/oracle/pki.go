package oracle

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority signs the certificates of one oracle.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// openAuthority reads the authority of a folder, or makes it, and issues what
// kube-apiserver reads. ca.crt, ca.key and sa.key stay over restarts.
func openAuthority(dir string) (*authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	a := &authority{dir: dir}
	if err := a.load(); errors.Is(err, fs.ErrNotExist) {
		err = a.make()
		if err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, fmt.Errorf("read authority of %s: %w", dir, err)
	}
	server := &x509.Certificate{Subject: pkix.Name{CommonName: "kube-apiserver"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 96, 0, 1)}}
	if err := a.write("server", server); err != nil {
		return nil, err
	}
	return a, a.write("front-proxy", clientTemplate("front-proxy-client", nil))
}

func (a *authority) load() error {
	pair, err := tls.LoadX509KeyPair(a.file("ca.crt"), a.file("ca.key"))
	if err != nil {
		return err
	}
	a.key = pair.PrivateKey.(*ecdsa.PrivateKey)
	a.cert, err = x509.ParseCertificate(pair.Certificate[0])
	return err
}

func (a *authority) make() (err error) {
	if a.key, err = a.newKey("ca.key"); err != nil {
		return err
	}
	if _, err := a.newKey("sa.key"); err != nil {
		return err
	}
	a.cert = &x509.Certificate{Subject: pkix.Name{CommonName: "oracle-ca"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, err := a.sign(a.cert, &a.key.PublicKey)
	if err != nil {
		return err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return err
	}
	return os.WriteFile(a.file("ca.crt"), encode("CERTIFICATE", der), 0o600)
}

func (a *authority) newKey(name string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, os.WriteFile(a.file(name), encode("EC PRIVATE KEY", der), 0o600)
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

func clientTemplate(user string, groups []string) *x509.Certificate {
	return &x509.Certificate{Subject: pkix.Name{CommonName: user, Organization: groups}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
}

// client issues a certificate for a user, good for a day.
func (a *authority) client(user string, groups []string) (tls.Certificate, error) {
	cert, key, err := a.issue(clientTemplate(user, groups))
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}

func (a *authority) issue(tmpl *x509.Certificate) (cert, key []byte, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := a.sign(tmpl, &k.PublicKey)
	if err != nil {
		return nil, nil, err
	}
	kder, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		return nil, nil, err
	}
	return encode("CERTIFICATE", der), encode("EC PRIVATE KEY", kder), nil
}

func (a *authority) sign(tmpl *x509.Certificate, pub *ecdsa.PublicKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, err
	}
	tmpl.SerialNumber = serial
	tmpl.NotBefore, tmpl.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	tmpl.KeyUsage |= x509.KeyUsageDigitalSignature
	return x509.CreateCertificate(rand.Reader, tmpl, a.cert, pub, a.key)
}

func (a *authority) write(name string, tmpl *x509.Certificate) error {
	cert, key, err := a.issue(tmpl)
	if err != nil {
		return err
	}
	if err := os.WriteFile(a.file(name+".crt"), cert, 0o600); err != nil {
		return err
	}
	return os.WriteFile(a.file(name+".key"), key, 0o600)
}

// writeKubeconfig writes a credential of system:masters.
func (a *authority) writeKubeconfig(path, server string) error {
	cert, key, err := a.issue(clientTemplate("admin", []string{"system:masters"}))
	if err != nil {
		return err
	}
	b64 := base64.StdEncoding.EncodeToString
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: oracle
contexts:
- name: oracle
  context: {cluster: oracle, user: admin}
clusters:
- name: oracle
  cluster: {server: %q, certificate-authority-data: %s}
users:
- name: admin
  user: {client-certificate-data: %s, client-key-data: %s}
`, server, b64(encode("CERTIFICATE", a.cert.Raw)), b64(cert), b64(key))
	for name, data := range map[string][]byte{"admin.crt": cert, "admin.key": key} {
		if err := os.WriteFile(a.file(name), data, 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(path, []byte(text), 0o600)
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
