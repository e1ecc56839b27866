package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"sync"
	"time"
)

// Lifetimes of what the authority issues.
const (
	// BreakGlass is how long the admin's certificate is good for.
	BreakGlass = time.Hour
	// Standing is the lifetime of all other certificates; they are renewed
	// long before.
	Standing = 365 * 24 * time.Hour
)

// Client is who a client certificate speaks for.
type Client struct {
	User   string
	Groups []string
	TTL    time.Duration // default Standing
}

// Serving is what a serving certificate answers for.
type Serving struct {
	Name  string
	Hosts []string // DNS names and addresses
	TTL   time.Duration
}

// KeyPair is an issued certificate with its key.
type KeyPair struct {
	CertPEM, KeyPEM []byte
	Leaf            *x509.Certificate
	key             *ecdsa.PrivateKey
}

// TLS returns the pair for a tls.Config.
func (p *KeyPair) TLS() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{p.Leaf.Raw}, PrivateKey: p.key, Leaf: p.Leaf}
}

// RenewAt returns when the pair should be replaced: after two thirds of its life.
func (p *KeyPair) RenewAt() time.Time {
	return p.Leaf.NotBefore.Add(p.Leaf.NotAfter.Sub(p.Leaf.NotBefore) * 2 / 3)
}

// IssueClient issues a client certificate: the common name is the user, the
// organisations are the groups.
func (a *Authority) IssueClient(c Client) (*KeyPair, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: c.User, Organization: c.Groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, c.TTL)
}

// IssueServing issues a serving certificate for the given names and addresses.
func (a *Authority) IssueServing(s Serving) (*KeyPair, error) {
	return a.issue(hosted(s, x509.ExtKeyUsageServerAuth), s.TTL)
}

// IssuePeer issues a certificate for one that serves and calls others of its
// kind.
func (a *Authority) IssuePeer(s Serving) (*KeyPair, error) {
	return a.issue(hosted(s, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth), s.TTL)
}

func hosted(s Serving, usages ...x509.ExtKeyUsage) *x509.Certificate {
	tmpl := &x509.Certificate{Subject: pkix.Name{CommonName: s.Name}, ExtKeyUsage: usages}
	for _, h := range s.Hosts {
		if ip := net.ParseIP(h); ip != nil {
			tmpl.IPAddresses = append(tmpl.IPAddresses, ip)
		} else {
			tmpl.DNSNames = append(tmpl.DNSNames, h)
		}
	}
	return tmpl
}

// APIServerHosts are the names under which pods and people reach the API
// server, with the given addresses added.
func APIServerHosts(domain, serviceIP string, more ...string) []string {
	hosts := []string{"localhost", "127.0.0.1", "::1",
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + domain}
	if serviceIP != "" {
		hosts = append(hosts, serviceIP)
	}
	return append(hosts, more...)
}

func (a *Authority) issue(tmpl *x509.Certificate, ttl time.Duration) (*KeyPair, error) {
	if ttl == 0 {
		ttl = Standing
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate key of %s: %w", tmpl.Subject.CommonName, err)
	}
	now := a.cfg.Now()
	tmpl.NotBefore, tmpl.NotAfter = now.Add(-skew), now.Add(ttl)
	if tmpl.NotAfter.After(a.cert.NotAfter) {
		tmpl.NotAfter = a.cert.NotAfter
	}
	tmpl.KeyUsage = x509.KeyUsageDigitalSignature
	tmpl.BasicConstraintsValid = true
	der, err := a.create(tmpl, &key.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("create certificate of %s: %w", tmpl.Subject.CommonName, err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parse certificate of %s: %w", tmpl.Subject.CommonName, err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	certPEM := encodeCert(der)
	return &KeyPair{CertPEM: certPEM, KeyPEM: keyPEM, Leaf: leaf, key: key}, nil
}

// create signs a certificate under a fresh serial number.
func (a *Authority) create(tmpl *x509.Certificate, public any) ([]byte, error) {
	var err error
	if tmpl.SerialNumber, err = serialNumber(); err != nil {
		return nil, err
	}
	return x509.CreateCertificate(rand.Reader, tmpl, a.cert, public, a.key)
}

// ServingCertificate is a serving certificate in memory that renews itself
// when a handshake finds it old, and may learn names on the way.
type ServingCertificate struct {
	authority *Authority

	mu   sync.Mutex
	spec Serving
	pair *KeyPair
	tls  *tls.Certificate
}

// NewServingCertificate returns a certificate that is issued at the first
// handshake.
func (a *Authority) NewServingCertificate(s Serving) *ServingCertificate {
	return &ServingCertificate{authority: a, spec: s}
}

// Get is the GetCertificate of a tls.Config.
func (c *ServingCertificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pair != nil && c.authority.cfg.Now().Before(c.pair.RenewAt()) {
		return c.tls, nil
	}
	pair, err := c.authority.IssueServing(c.spec)
	if err != nil {
		return nil, err
	}
	t := pair.TLS()
	c.pair, c.tls = pair, &t
	return c.tls, nil
}

// AddHosts adds names and addresses, for handshakes from now on.
func (c *ServingCertificate) AddHosts(hosts ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	have := make(map[string]bool, len(c.spec.Hosts))
	for _, h := range c.spec.Hosts {
		have[h] = true
	}
	spec := c.spec
	for _, h := range hosts {
		if h != "" && !have[h] {
			have[h] = true
			spec.Hosts = append(spec.Hosts[:len(spec.Hosts):len(spec.Hosts)], h)
		}
	}
	if len(spec.Hosts) != len(c.spec.Hosts) {
		c.spec, c.pair = spec, nil
	}
}
