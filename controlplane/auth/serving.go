package auth

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
)

// CertificateFile is a serving certificate of the operator's, in files that may
// be replaced.
type CertificateFile struct {
	// Names are the server names that it is for, with "*." for one label; none:
	// those in the certificate.
	Names []string

	now atomic.Pointer[tls.Certificate]
}

// Take takes over a certificate, with those between it and its root, and its
// key, both in PEM: the Take of a reload.Config with these two files.
func (c *CertificateFile) Take(_ context.Context, data [][]byte) error {
	pair, err := tls.X509KeyPair(data[0], data[1])
	if err != nil {
		return fmt.Errorf("read serving certificate and key: %w", err)
	}
	c.now.Store(&pair)
	return nil
}

func (c *CertificateFile) covers(name string) bool {
	if len(c.Names) == 0 {
		return c.now.Load().Leaf.VerifyHostname(name) == nil
	}
	_, parent, _ := strings.Cut(name, ".")
	return slices.ContainsFunc(c.Names, func(n string) bool { return strings.EqualFold(n, name) || strings.EqualFold(n, "*."+parent) })
}

// GetCertificate is that of a tls.Config.
type GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// ServingCertificates picks the certificate that a client asked for by name.
// Those of sni are for their names, and primary, if any, for all others but
// for these: who names nobody, or a name by which the cluster's own parts call,
// gets the cluster's own certificate. Pods and nodes know no other CA, and must
// not lose the API server by a certificate for people.
func ServingCertificates(own GetCertificate, primary *CertificateFile, sni []*CertificateFile) GetCertificate {
	return func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		name := strings.TrimSuffix(hello.ServerName, ".")
		if name == "" || insider(name) {
			return own(hello)
		}
		for _, c := range sni {
			if c.covers(name) {
				return c.now.Load(), nil
			}
		}
		if primary == nil {
			return own(hello)
		}
		if !primary.covers(name) {
			if c, err := own(hello); err != nil || c.Leaf != nil && c.Leaf.VerifyHostname(name) == nil {
				return c, err
			}
		}
		return primary.now.Load(), nil
	}
}

// insider says that only the cluster's own parts, or this machine, call the
// server by a name.
func insider(name string) bool {
	return strings.EqualFold(name, "localhost") || strings.EqualFold(name, "kubernetes") || strings.HasPrefix(strings.ToLower(name), "kubernetes.default")
}
