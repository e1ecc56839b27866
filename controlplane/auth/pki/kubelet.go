package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
)

// Kubelet returns the authority of the certificates that nodes serve by. It is
// another CA than the cluster's: what it signs proves a node to an API server,
// and never an API server to anybody, whatever names are in it.
//
// Its key is derived (HKDF, RFC 5869) from that of the cluster's CA, which all
// servers of a cluster have alike. So they agree on it without a file to hand
// over, and so does a server that was begun by a version without it.
func (a *Authority) Kubelet() (*Authority, error) {
	a.kubeletOnce.Do(func() { a.kubelet, a.errKubelet = a.deriveKubelet() })
	return a.kubelet, a.errKubelet
}

func (a *Authority) deriveKubelet() (*Authority, error) {
	key, err := derive(a.key, "writ kubelet-serving CA")
	if err != nil {
		return nil, fmt.Errorf("derive key of the authority of nodes' serving certificates: %w", err)
	}
	k := &Authority{cfg: a.cfg, names: names{common: "writ-kubelet-ca"}, pool: x509.NewCertPool()}
	if err := k.sign(key); err != nil {
		return nil, err
	}
	k.pool.AddCert(k.cert)
	return k, nil
}

// derive is the key that belongs to a key and a purpose.
func derive(from *ecdsa.PrivateKey, purpose string) (*ecdsa.PrivateKey, error) {
	secret, err := from.Bytes()
	if err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		raw, err := hkdf.Key(sha256.New, secret, nil, fmt.Sprintf("%s %d", purpose, try), 32)
		if err != nil {
			return nil, err
		}
		// One in 2^32 is no scalar of the curve.
		if key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), raw); err == nil || try == 8 {
			return key, err
		}
	}
}

// NodePool returns the certificates that a node may prove itself by to an API
// server: those of Kubelet, and, until they are renewed, those that the
// cluster's own CA has signed for nodes of before. Who reads such a certificate
// must look whose it is.
func (a *Authority) NodePool() (*x509.CertPool, error) {
	k, err := a.Kubelet()
	if err != nil {
		return nil, err
	}
	pool := k.pool.Clone()
	pool.AddCert(a.cert)
	return pool, nil
}
