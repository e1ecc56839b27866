package auth

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
)

// Tokens checks bearer tokens. *token.Authority is one.
type Tokens interface {
	Authenticate(token string, audiences []string) (user.Info, []string, error)
}

// AuthenticatorConfig is what authentication needs.
type AuthenticatorConfig struct {
	// Pool holds the CAs that issue client certificates.
	Pool *x509.CertPool
	// Tokens checks bearer tokens. nil refuses all.
	Tokens Tokens
	// Anonymous lets requests without credentials through as system:anonymous.
	// RBAC lets it see the health and version endpoints only.
	Anonymous bool
	// Now is the clock. Default time.Now.
	Now func() time.Time
}

// Authenticator says whom a request is from.
type Authenticator struct {
	cfg   AuthenticatorConfig
	certs certCache
}

// NewAuthenticator returns an authenticator.
func NewAuthenticator(cfg AuthenticatorConfig) *Authenticator {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Authenticator{cfg: cfg}
}

// errUnverified is why a certificate of the right CA is refused all the same.
var errUnverified = errors.New("certificate not valid")

// Authenticate returns the user of a request. ok is false when the request has
// no credentials. An error says that it has some and that they are no good: the
// answer is 401 either way, and nobody falls back to anonymous with a bad
// credential. The Authorization header is removed when it was used.
func (a *Authenticator) Authenticate(r *http.Request) (user.Info, bool, error) {
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		u, err := a.certificate(r.TLS.PeerCertificates)
		return u, err == nil, err
	}
	if token, ok := bearer(r); ok {
		if a.cfg.Tokens == nil {
			return nil, false, errors.New("bearer tokens are not accepted")
		}
		u, _, err := a.cfg.Tokens.Authenticate(token, nil)
		if err != nil {
			return nil, false, fmt.Errorf("invalid bearer token: %w", err)
		}
		r.Header.Del("Authorization")
		return withAuthenticated(u), true, nil
	}
	if r.Header.Get("Authorization") != "" {
		return nil, false, errors.New("unknown kind of credentials in the Authorization header")
	}
	if a.cfg.Anonymous {
		return &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}, true, nil
	}
	return nil, false, nil
}

// AuthenticateToken answers a TokenReview: whom a token speaks for, and for
// which of the audiences.
func (a *Authenticator) AuthenticateToken(token string, audiences []string) (user.Info, []string, error) {
	if a.cfg.Tokens == nil {
		return nil, nil, errors.New("bearer tokens are not accepted")
	}
	u, got, err := a.cfg.Tokens.Authenticate(token, audiences)
	if err != nil {
		return nil, nil, err
	}
	return withAuthenticated(u), got, nil
}

// bearer returns the token of a request's Authorization header.
func bearer(r *http.Request) (string, bool) {
	scheme, token, ok := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	if ok && strings.EqualFold(scheme, "bearer") {
		if token = strings.TrimSpace(token); token != "" {
			return token, true
		}
	}
	return "", false
}

func withAuthenticated(u user.Info) user.Info {
	return &user.DefaultInfo{
		Name: u.GetName(), UID: u.GetUID(), Extra: u.GetExtra(),
		Groups: append(append([]string{}, u.GetGroups()...), user.AllAuthenticated),
	}
}

// certificate verifies a client's chain, once for each certificate: a
// signature costs 80 us and a client sends thousands of requests with one.
func (a *Authenticator) certificate(chain []*x509.Certificate) (user.Info, error) {
	leaf := chain[0]
	id := sha256.Sum256(leaf.Raw)
	now := a.cfg.Now()
	v, ok := a.certs.get(id)
	if !ok {
		until, err := a.verify(chain, now)
		if err != nil {
			return nil, err
		}
		v = verified{user: certUser(leaf, id), from: leaf.NotBefore, until: until}
		a.certs.put(id, v)
	}
	if now.Before(v.from) || now.After(v.until) {
		return nil, fmt.Errorf("verify client certificate of %q: %w: expired or not yet valid", leaf.Subject.CommonName, errUnverified)
	}
	return v.user, nil
}

// verify checks the chain against the CA and returns until when it holds.
func (a *Authenticator) verify(chain []*x509.Certificate, now time.Time) (time.Time, error) {
	opts := x509.VerifyOptions{
		Roots: a.cfg.Pool, Intermediates: x509.NewCertPool(), CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, c := range chain[1:] {
		opts.Intermediates.AddCert(c)
	}
	leaf := chain[0]
	chains, err := leaf.Verify(opts)
	if err != nil {
		return time.Time{}, fmt.Errorf("verify client certificate of %q: %w", leaf.Subject.CommonName, err)
	}
	if leaf.Subject.CommonName == "" {
		return time.Time{}, fmt.Errorf("verify client certificate: %w: no common name", errUnverified)
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

type certCache struct {
	mu sync.RWMutex
	m  map[[sha256.Size]byte]verified
}

func (c *certCache) get(id [sha256.Size]byte) (verified, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	v, ok := c.m[id]
	return v, ok
}

func (c *certCache) put(id [sha256.Size]byte, v verified) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil || len(c.m) >= maxCerts {
		c.m = map[[sha256.Size]byte]verified{}
	}
	c.m[id] = v
}
