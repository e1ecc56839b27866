package auth

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/writ-os/writ/controlplane/auth/identity"
)

var (
	// errUnverified is why a certificate of the right CA is refused all the same.
	errUnverified = errors.New("certificate not valid")
	errPassword   = errors.New("invalid username/password combination")
	errForNodes   = errors.New("the certificate is for calls of API servers to nodes, and API servers do not take it")
)

// certificate says whom a client certificate speaks for. It verifies the
// chain once for each certificate: a signature costs 80 us and a client sends
// thousands of requests with one.
func (a *Authenticator) certificate(r *http.Request) (user.Info, bool, error) {
	if a.cfg.CAs == nil || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, false, nil
	}
	leaf := r.TLS.PeerCertificates[0]
	if slices.Contains(leaf.Subject.Organization, identity.KubeletClientsGroup) {
		return nil, false, errForNodes
	}
	v, err := a.certs.verified(r.TLS.PeerCertificates, a.cfg.CAs.Pool(), a.cfg.Now())
	if err != nil {
		return nil, false, fmt.Errorf("verify client certificate of %q: %w", leaf.Subject.CommonName, err)
	}
	return v.user, v.user.GetName() != "", nil
}

// verify checks a chain against CAs and returns until when it holds.
func verify(chain []*x509.Certificate, pool *x509.CertPool, now time.Time) (time.Time, error) {
	opts := x509.VerifyOptions{
		Roots: pool, Intermediates: x509.NewCertPool(), CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, c := range chain[1:] {
		opts.Intermediates.AddCert(c)
	}
	leaf := chain[0]
	chains, err := leaf.Verify(opts)
	if err != nil {
		return time.Time{}, err
	}
	until := leaf.NotAfter
	for _, c := range chains[0] {
		if c.NotAfter.Before(until) {
			until = c.NotAfter
		}
	}
	return until, nil
}

func certUser(leaf *x509.Certificate, id [sha256.Size]byte) user.Info {
	return &user.DefaultInfo{
		Name:   leaf.Subject.CommonName,
		Groups: append(append([]string{}, leaf.Subject.Organization...), user.AllAuthenticated),
		Extra:  map[string][]string{user.CredentialIDKey: {"X509SHA256=" + hex.EncodeToString(id[:])}},
	}
}

type verified struct {
	user        user.Info
	from, until time.Time
}

// maxCerts bounds the memory of a server that sees ever new certificates.
const maxCerts = 8192

// certCache remembers certificates whose chain was verified, by hash. Refused
// ones are not kept, and none when the CAs change.
type certCache struct {
	mu   sync.RWMutex
	pool *x509.CertPool
	m    map[[sha256.Size]byte]verified
}

func (c *certCache) verified(chain []*x509.Certificate, pool *x509.CertPool, now time.Time) (verified, error) {
	leaf := chain[0]
	id := sha256.Sum256(leaf.Raw)
	v, ok := c.get(id, pool)
	if !ok {
		until, err := verify(chain, pool, now)
		if err != nil {
			return verified{}, err
		}
		v = verified{user: certUser(leaf, id), from: leaf.NotBefore, until: until}
		c.put(id, v, pool)
	}
	if now.Before(v.from) || now.After(v.until) {
		return verified{}, fmt.Errorf("%w: expired or not yet valid", errUnverified)
	}
	return v, nil
}

func (c *certCache) get(id [sha256.Size]byte, pool *x509.CertPool) (verified, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	v, ok := c.m[id]
	return v, ok && c.pool == pool
}

func (c *certCache) put(id [sha256.Size]byte, v verified, pool *x509.CertPool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pool != pool {
		c.pool, c.m = pool, nil
	}
	if c.m == nil || len(c.m) >= maxCerts {
		c.m = map[[sha256.Size]byte]verified{}
	}
	c.m[id] = v
}
