package exchange

import (
	"crypto/tls"
	"net/http"
	"strings"
	"sync"

	"github.com/writ-os/writ/controlplane/auth/pki"
)

// Users are HTTP clients with certificates of one authority. Safe for
// concurrent use.
type Users struct {
	authority *pki.Authority
	mu        sync.Mutex
	known     map[string]*http.Client
}

// NewUsers returns users that the server trusts whose authority it is.
func NewUsers(a *pki.Authority) *Users {
	return &Users{authority: a, known: map[string]*http.Client{}}
}

// Client is a Server's Client. The user "" has no certificate.
func (u *Users) Client(user string, groups []string) (*http.Client, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	id := strings.Join(append([]string{user}, groups...), ",")
	if c := u.known[id]; c != nil {
		return c, nil
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: u.authority.Pool()}
	if user != "" {
		pair, err := u.authority.IssueClient(pki.Client{User: user, Groups: groups})
		if err != nil {
			return nil, err
		}
		conf.Certificates = []tls.Certificate{pair.TLS()}
	}
	u.known[id] = &http.Client{
		Transport:     &http.Transport{TLSClientConfig: conf, ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return u.known[id], nil
}

// Close ends idle connections.
func (u *Users) Close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range u.known {
		c.CloseIdleConnections()
	}
}
