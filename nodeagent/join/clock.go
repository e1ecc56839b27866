package join

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	// alike is how far clocks may be apart that are taken to agree.
	alike = time.Minute
	// clockLook is how often it is looked whether the clock was set.
	clockLook = 10 * time.Second
	// clockSay is when a wrong clock is told of again.
	clockSay = 10 * time.Minute
)

// ClockError says that a certificate is not valid at the time that a clock has.
// It passes when the clock is set.
type ClockError struct {
	Whose       string    // certificate it is
	Here        time.Time // what the clock of this machine says
	There       time.Time // what the server's says; zero where it did not say
	From, Until time.Time // when the certificate is valid
	err         error
}

func (e *ClockError) Unwrap() error { return e.err }

func (e *ClockError) Error() string {
	stamp := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	valid := fmt.Sprintf("%s is valid from %s to %s", e.Whose, stamp(e.From), stamp(e.Until))
	switch {
	case e.There.IsZero():
		return fmt.Sprintf("this machine's clock says %s, and %s: set the clock, by timeServers in node.yaml", stamp(e.Here), valid)
	case e.There.Sub(e.Here).Abs() <= alike:
		return fmt.Sprintf("%s, and the clocks of this machine and of the server both say %s: start the server again, which renews its certificate, or set both clocks", valid, stamp(e.Here))
	case e.There.Before(e.From) || e.There.After(e.Until):
		return fmt.Sprintf("the server's clock says %s, this machine's says %s, and %s: set the clock of the server", stamp(e.There), stamp(e.Here), valid)
	}
	return fmt.Sprintf("this machine's clock says %s and the server's %s, and %s: set the clock, by timeServers in node.yaml", stamp(e.Here), stamp(e.There), valid)
}

// clockError is what a wrong clock has to do with a call that failed, or was
// answered 401; nil where it has nothing. there is the time of the server, if it
// was told.
func clockError(err error, server string, here, there time.Time) *ClockError {
	var invalid x509.CertificateInvalidError
	var unverified *tls.CertificateVerificationError
	if !errors.As(err, &invalid) || invalid.Reason != x509.Expired || invalid.Cert == nil {
		return nil
	}
	cert := invalid.Cert
	// Of a chain the leaf tells more than what is above it.
	if errors.As(err, &unverified) && len(unverified.UnverifiedCertificates) > 0 {
		if leaf := unverified.UnverifiedCertificates[0]; here.Before(leaf.NotBefore) || here.After(leaf.NotAfter) {
			cert = leaf
		}
	}
	return &ClockError{Whose: "the certificate of " + server, Here: here, There: there, From: cert.NotBefore, Until: cert.NotAfter, err: err}
}

// refusedByClock is why a server answers 401 to a certificate that is valid here.
func refusedByClock(leaf *x509.Certificate, here, there time.Time) *ClockError {
	if leaf == nil || there.IsZero() || !there.Before(leaf.NotBefore) && !there.After(leaf.NotAfter) {
		return nil
	}
	return &ClockError{Whose: "the certificate of this node", Here: here, There: there, From: leaf.NotBefore, Until: leaf.NotAfter}
}

// dateOf is what the clock of a server says; zero where it does not tell.
func dateOf(resp *http.Response) time.Time {
	if resp == nil {
		return time.Time{}
	}
	t, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return time.Time{}
	}
	return t
}

// clockWatch says when calls fail for a wrong clock, however often they do. The
// calls go on: they succeed when the clock is set.
type clockWatch struct {
	http.RoundTripper
	m *Member
}

// RoundTrip implements http.RoundTripper.
func (w clockWatch) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := w.RoundTripper.RoundTrip(r)
	if err != nil {
		if bad := clockError(err, w.m.cfg.Server, w.m.now(), time.Time{}); bad != nil {
			w.m.clock.say(w.m, bad)
			return nil, bad
		}
		return nil, err
	}
	if resp.StatusCode == http.StatusUnauthorized {
		if client, _ := w.m.pairs(); client != nil {
			if c := client.Current(); c != nil {
				w.m.clock.say(w.m, refusedByClock(c.Leaf, w.m.now(), dateOf(resp)))
			}
		}
	}
	return resp, nil
}

// clockWords are what was said of a clock last.
type clockWords struct {
	mu sync.Mutex
	at time.Time
}

func (c *clockWords) say(m *Member, bad *ClockError) {
	if bad == nil {
		return
	}
	c.mu.Lock()
	soon := !c.at.IsZero() && time.Since(c.at) < clockSay
	if !soon {
		c.at = time.Now()
	}
	c.mu.Unlock()
	if !soon {
		m.cfg.Log.Warn("a clock is wrong", "err", bad)
	}
}

// mark is a moment, by the clock that is set and by the one that only runs on.
type mark struct {
	day  time.Time
	runs time.Duration
}

// stepped says how far the clock was set since then.
func (m mark) stepped(now mark) time.Duration {
	return now.day.Round(0).Sub(m.day.Round(0)) - (now.runs - m.runs)
}
