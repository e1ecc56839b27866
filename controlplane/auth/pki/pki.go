// Package pki is the cluster's own certificate authority: it makes the CA once
// and keeps it, or keeps one that was made before (Make, Adopt), issues client
// and serving certificates from it, keeps the signing key of service-account
// tokens, and writes the credential files that people and tools use.
//
// It owns the folder it is given:
//
//	ca.crt  ca.key   the cluster's CA, ECDSA P-256, ten years
//	sa.key           the signing key of service-account tokens
//	front-proxy-ca.crt  front-proxy-ca.key   another CA, for proxies alone
//	peer-ca.crt  peer-ca.key   a third, for servers that share one store
//
// A fourth, that of what nodes serve by (Kubelet), is in no file: its key comes
// from that of the cluster's CA.
//
// Every file is written in one step and synced; private ones have mode 0600.
// Other certificates are never kept: issuing one takes 0.1 ms.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/writ-os/writ/controlplane/durable"
)

const (
	caLifetime = 10 * 365 * 24 * time.Hour
	// skew is how far a client's clock may be behind ours.
	skew = 5 * time.Minute

	caCertFile = "ca.crt"
	caKeyFile  = "ca.key"
	saKeyFile  = "sa.key"
)

// Config says where the authority lives.
type Config struct {
	// Dir is the folder, usually <data-dir>/pki. It is made when missing.
	Dir string
	// Now is the clock. Default time.Now.
	Now func() time.Time
}

// Authority issues credentials. It is safe for concurrent use.
type Authority struct {
	cfg   Config
	names names
	cert  *x509.Certificate
	key   *ecdsa.PrivateKey
	pem   []byte
	pool  *x509.CertPool
	saKey *ecdsa.PrivateKey

	kubelet     *Authority // after kubeletOnce
	kubeletOnce sync.Once
	errKubelet  error
}

// ownCA are the files of the cluster's CA.
var ownCA = names{cert: caCertFile, key: caKeyFile, common: "writ-ca"}

// Open reads the authority of a folder, and makes what is missing. A CA whose
// key or certificate alone is missing is an error and not made again: every
// credential issued before would turn invalid.
func Open(cfg Config) (*Authority, error) {
	a, err := openCA(cfg, ownCA)
	if err != nil {
		return nil, err
	}
	key, err := a.loadKey(saKeyFile)
	if errors.Is(err, fs.ErrNotExist) {
		key, err = a.makeKey(saKeyFile)
	}
	if err != nil {
		return nil, err
	}
	a.saKey = key
	return a, nil
}

// OpenFrontProxy reads the authority of front proxies from the same folder, and
// makes it when it is missing. It must not be the cluster's CA: whoever has a
// certificate of it may name any user in a header (auth.FrontProxy).
func OpenFrontProxy(cfg Config) (*Authority, error) {
	return openCA(cfg, names{cert: "front-proxy-ca.crt", key: "front-proxy-ca.key", common: "writ-front-proxy-ca"})
}

// OpenPeers reads the authority of the servers that share one store, and makes
// it when it is missing. Whoever has a certificate of it reads and writes all
// that is stored, so it signs for them and for nothing else.
func OpenPeers(cfg Config) (*Authority, error) {
	return openCA(cfg, names{cert: "peer-ca.crt", key: "peer-ca.key", common: "writ-peer-ca"})
}

// Shared are the files of the folder that all servers of a cluster have alike,
// by name. The first says which cluster it is.
func Shared() []string {
	return []string{caCertFile, caKeyFile, saKeyFile, "front-proxy-ca.crt", "front-proxy-ca.key", "peer-ca.crt", "peer-ca.key"}
}

// names are the files of a CA and what it is called.
type names struct{ cert, key, common string }

func openCA(cfg Config, n names) (*Authority, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("create %s: %w", cfg.Dir, err)
	}
	a := &Authority{cfg: cfg, names: n, pool: x509.NewCertPool()}
	if err := a.loadCA(); err != nil {
		return nil, err
	}
	a.pool.AddCert(a.cert)
	return a, nil
}

// CA returns the certificate of the authority.
func (a *Authority) CA() *x509.Certificate { return a.cert }

// CAPEM returns the certificate of the authority as clients want it.
func (a *Authority) CAPEM() []byte { return a.pem }

// Pool returns a pool with the authority's certificate alone.
func (a *Authority) Pool() *x509.CertPool { return a.pool }

// ServiceAccountKey returns the key that signs service-account tokens.
func (a *Authority) ServiceAccountKey() *ecdsa.PrivateKey { return a.saKey }

func (a *Authority) path(name string) string { return filepath.Join(a.cfg.Dir, name) }

func (a *Authority) loadCA() error {
	certPEM, certErr := os.ReadFile(a.path(a.names.cert))
	key, keyErr := a.loadKey(a.names.key)
	switch {
	case errors.Is(certErr, fs.ErrNotExist) && errors.Is(keyErr, fs.ErrNotExist):
		return a.makeCA(nil)
	case errors.Is(certErr, fs.ErrNotExist) && keyErr == nil:
		// The key is written first: a crash in between left it alone.
		return a.makeCA(key)
	case certErr != nil:
		return fmt.Errorf("read CA certificate: %w", certErr)
	case keyErr != nil:
		return fmt.Errorf("read CA key: %w", keyErr)
	}
	cert, err := parseCert(certPEM)
	if err != nil {
		return fmt.Errorf("parse %s: %w", a.path(a.names.cert), err)
	}
	if !key.PublicKey.Equal(cert.PublicKey) {
		return fmt.Errorf("read CA: %s is not the key of %s: restore both from the same backup", a.path(a.names.key), a.path(a.names.cert))
	}
	if a.cfg.Now().After(cert.NotAfter) {
		return fmt.Errorf("read CA: %s has expired on %s: move %s away and restart, then hand out new credentials",
			a.path(a.names.cert), cert.NotAfter.Format(time.DateOnly), a.cfg.Dir)
	}
	a.cert, a.key, a.pem = cert, key, certPEM
	return nil
}

// makeCA makes the CA, with the given key if there is one already.
func (a *Authority) makeCA(key *ecdsa.PrivateKey) error {
	var err error
	if key == nil {
		if key, err = a.makeKey(a.names.key); err != nil {
			return err
		}
	}
	if err := a.sign(key); err != nil {
		return err
	}
	return durable.WriteFile(a.path(a.names.cert), a.pem, 0o644)
}

// sign makes the certificate of the CA's key.
func (a *Authority) sign(key *ecdsa.PrivateKey) error {
	serial, err := serialNumber()
	if err != nil {
		return err
	}
	now := a.cfg.Now()
	tmpl := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: a.names.common},
		NotBefore:             now.Add(-skew),
		NotAfter:              now.Add(caLifetime),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		return fmt.Errorf("create CA certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return fmt.Errorf("parse CA certificate: %w", err)
	}
	a.cert, a.key, a.pem = cert, key, encodeCert(der)
	return nil
}

func (a *Authority) makeKey(name string) (*ecdsa.PrivateKey, error) {
	key, err := generateKey()
	if err != nil {
		return nil, fmt.Errorf("generate %s: %w", name, err)
	}
	data, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	return key, durable.WriteFile(a.path(name), data, 0o600)
}

func generateKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

func (a *Authority) loadKey(name string) (*ecdsa.PrivateKey, error) {
	data, err := os.ReadFile(a.path(name))
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("read key %s: no PEM block", a.path(name))
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse key %s: %w", a.path(name), err)
	}
	return key, nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func parseCert(data []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("no certificate in PEM form")
	}
	return x509.ParseCertificate(block.Bytes)
}

func serialNumber() (*big.Int, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("draw serial number: %w", err)
	}
	return n.Add(n, big.NewInt(1)), nil
}
