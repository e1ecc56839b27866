package auth

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"sync/atomic"

	"k8s.io/client-go/util/cert"
)

// CAs are certificate authorities whose certificates are trusted. They may
// change: each call returns those of now, and the same pool as long as they
// have not changed. *pki.Authority and *CABundle are some.
type CAs interface {
	Pool() *x509.CertPool
	CAPEM() []byte
}

// CABundle is CAs that are fixed, and others from a file that may be replaced.
// It is safe for concurrent use.
type CABundle struct {
	fixed []byte
	now   atomic.Pointer[caBundle]
}

type caBundle struct {
	pool *x509.CertPool
	pem  []byte
}

var _ CAs = (*CABundle)(nil)

// NewCABundle returns a bundle of the fixed CAs, in PEM, if any.
func NewCABundle(fixed []byte) *CABundle {
	b := &CABundle{fixed: fixed}
	b.set(nil)
	return b
}

func (b *CABundle) set(data []byte) {
	n := &caBundle{pool: x509.NewCertPool(), pem: slices.Concat(b.fixed, data)}
	n.pool.AppendCertsFromPEM(n.pem)
	b.now.Store(n)
}

// Take takes over the content of a file, in place of what it held before: the
// Take of a reload.Config with one file.
func (b *CABundle) Take(_ context.Context, data [][]byte) error {
	if _, err := cert.ParseCertsPEM(data[0]); err != nil {
		return fmt.Errorf("read CA certificates: %w", err)
	}
	b.set(data[0])
	return nil
}

// Pool implements CAs.
func (b *CABundle) Pool() *x509.CertPool { return b.now.Load().pool }

// CAPEM implements CAs.
func (b *CABundle) CAPEM() []byte { return b.now.Load().pem }
