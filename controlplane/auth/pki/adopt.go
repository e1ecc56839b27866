package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/writ-os/writ/controlplane/durable"
)

// ErrAnother says that a folder has a CA already, and not the one to adopt.
var ErrAnother = errors.New("there is another authority already, and a cluster keeps the one that it began with")

// Make makes the CA of a cluster that begins later. It is in no folder: it
// issues certificates, and signs no service-account tokens. now is the clock;
// nil is time.Now.
func Make(now func() time.Time) (*Authority, error) {
	key, err := generateKey()
	if err != nil {
		return nil, fmt.Errorf("generate key of the authority: %w", err)
	}
	a := unkept(now)
	if err := a.sign(key); err != nil {
		return nil, err
	}
	a.pool.AddCert(a.cert)
	return a, nil
}

// Parse reads a CA that is in no folder: one certificate, and its key as
// SEC 1 ("EC PRIVATE KEY") or PKCS #8 ("PRIVATE KEY"), both in PEM form. It must
// be a CA's, ECDSA, and good now. No error has any of the key in it.
func Parse(certPEM, keyPEM []byte, now func() time.Time) (*Authority, error) {
	cert, err := parseCert(certPEM)
	if err != nil {
		return nil, fmt.Errorf("read certificate of the authority: %w", err)
	}
	key, err := parseAnyKey(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("read key of the authority: %w", err)
	}
	a := unkept(now)
	switch {
	case !cert.IsCA || cert.KeyUsage != 0 && cert.KeyUsage&x509.KeyUsageCertSign == 0:
		return nil, errors.New("the certificate of the authority may not sign others")
	case !key.PublicKey.Equal(cert.PublicKey):
		return nil, errors.New("the key of the authority is not that of its certificate")
	case a.cfg.Now().After(cert.NotAfter):
		return nil, fmt.Errorf("the certificate of the authority has expired on %s", cert.NotAfter.Format(time.DateOnly))
	}
	a.cert, a.key, a.pem = cert, key, encodeCert(cert.Raw)
	a.pool.AddCert(cert)
	return a, nil
}

func unkept(now func() time.Time) *Authority {
	if now == nil {
		now = time.Now
	}
	return &Authority{cfg: Config{Now: now}, names: ownCA, pool: x509.NewCertPool()}
}

func parseAnyKey(data []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("no PEM block")
	}
	if block.Type == "EC PRIVATE KEY" {
		return x509.ParseECPrivateKey(block.Bytes)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("it is no ECDSA key")
	}
	return key, nil
}

// KeyPEM returns the private key of the authority. Whoever has it is the
// cluster.
func (a *Authority) KeyPEM() ([]byte, error) { return encodeKey(a.key) }

// Adopt puts a CA that was made elsewhere into a folder that has none, for Open
// to find. It may be killed at any moment and called again: the certificate,
// which makes it the folder's CA, comes last. With the same CA in the folder
// nothing is done; another one stays as it is, and the error is ErrAnother.
func Adopt(cfg Config, certPEM, keyPEM []byte) error {
	given, err := Parse(certPEM, keyPEM, cfg.Now)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("create %s: %w", cfg.Dir, err)
	}
	given.cfg.Dir = cfg.Dir
	certFile, keyFile := given.path(caCertFile), given.path(caKeyFile)
	switch have, err := os.ReadFile(certFile); {
	case err == nil:
		if cert, err := parseCert(have); err != nil || !bytes.Equal(cert.Raw, given.cert.Raw) {
			return fmt.Errorf("%s: %w", certFile, ErrAnother)
		}
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("read CA certificate: %w", err)
	}
	switch have, err := given.loadKey(caKeyFile); {
	case err == nil && !have.Equal(given.key):
		return fmt.Errorf("%s: %w", keyFile, ErrAnother)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	key, err := given.KeyPEM()
	if err != nil {
		return err
	}
	if err := durable.WriteFile(keyFile, key, 0o600); err != nil {
		return err
	}
	return durable.WriteFile(certFile, given.pem, 0o644)
}
