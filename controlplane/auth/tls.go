package auth

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
	"sync"
)

// TLSConfig returns the configuration of a server that the Authenticator
// works behind. Clients are asked for a certificate of one of the CAs and need
// not have one; a wrong one is answered with 401 and not with a failed
// handshake.
func TLSConfig(certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error), cas ...CAs) *tls.Config {
	c := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		ClientAuth:     tls.RequestClientCert,
		GetCertificate: certificate,
		NextProtos:     []string{"h2", "http/1.1"},
	}
	h := &hints{base: c.Clone(), cas: cas}
	c.ClientCAs = h.config().ClientCAs
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return h.config(), nil }
	return c
}

// hints tell clients the CAs of now: those with several certificates choose by
// them, and Go's send none that does not fit.
type hints struct {
	base *tls.Config
	cas  []CAs

	mu    sync.Mutex
	pools []*x509.CertPool // that now was made from
	now   *tls.Config
}

func (h *hints) config() *tls.Config {
	pools := make([]*x509.CertPool, len(h.cas))
	for i, c := range h.cas {
		pools[i] = c.Pool()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.now != nil && slices.Equal(pools, h.pools) {
		return h.now
	}
	next := h.base.Clone()
	next.ClientCAs = x509.NewCertPool()
	for _, c := range h.cas {
		next.ClientCAs.AppendCertsFromPEM(c.CAPEM())
	}
	h.now, h.pools = next, pools
	return next
}
