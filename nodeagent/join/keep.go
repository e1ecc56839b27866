package join

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"k8s.io/client-go/rest"
)

// Run keeps the certificates until ctx ends. Join must have succeeded.
func (m *Member) Run(ctx context.Context) error {
	defer m.stop()
	tick := time.NewTicker(clockLook)
	defer tick.Stop()
	last := mark{m.now(), m.running()}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := mark{m.now(), m.running()}
		if by := last.stepped(now); by.Abs() > alike {
			// When to renew was reckoned by the clock of before: in years, perhaps.
			m.cfg.Log.Info("the clock was set: certificates are looked at again", "by", by.Round(time.Second).String())
			if err := m.open(); err != nil {
				m.cfg.Log.Warn("certificates not looked at again", "err", err)
				continue
			}
		}
		last = now
	}
}

var loaded = time.Now()

// running is how long this program runs, however the clock is set.
func (m *Member) running() time.Duration { return time.Since(loaded) }

func (m *Member) stop() {
	client, serving := m.pairs()
	client.Stop()
	serving.Stop()
}

// Client is how the machine calls the API servers from now on. A certificate
// that is renewed is taken up by itself, and so is another server when the one
// in use is gone.
func (m *Member) Client() *rest.Config {
	pair := m.file(clientPair + "-current.pem")
	return &rest.Config{Host: m.cfg.Server, UserAgent: userAgent, Dial: m.servers.Dial, WrapTransport: m.wrap,
		TLSClientConfig: rest.TLSClientConfig{CAFile: m.file(caFile), CertFile: pair, KeyFile: pair, ServerName: serverName}}
}

func (m *Member) wrap(rt http.RoundTripper) http.RoundTripper {
	return clockWatch{m.servers.Wrap(rt), m}
}

// Learn tells where the servers of the cluster are: host:port. The machine
// remembers it.
func (m *Member) Learn(servers []string) { m.servers.Learn(servers) }

// Authority is the PEM form of the cluster's authority, from which callers of
// the node have their certificates.
func (m *Member) Authority() ([]byte, error) {
	b, err := os.ReadFile(m.file(caFile))
	if err != nil {
		return nil, fmt.Errorf("read authority of the cluster: %w", err)
	}
	return b, nil
}

// Serving is the certificate to serve by: for tls.Config.GetCertificate.
func (m *Member) Serving(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if _, serving := m.pairs(); serving != nil {
		if c := serving.Current(); c != nil {
			return c, nil
		}
	}
	return nil, errors.New("the certificate of this node is not signed yet")
}
