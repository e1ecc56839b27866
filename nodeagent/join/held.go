package join

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/util/certificate"
)

// held is the client certificate that is on disk, whatever its age; nil where
// there is none. One that cannot be read is an error.
func (m *Member) held() (*x509.Certificate, error) {
	pair := m.file(clientPair + "-current.pem")
	if _, err := os.Lstat(pair); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	c, err := tls.LoadX509KeyPair(pair, pair)
	if err != nil {
		return nil, err
	}
	return c.Leaf, nil
}

// setAside renames what cannot be read of a certificate, so that another one can
// be asked for. Nothing is deleted.
func (m *Member) setAside(name string) error {
	pair := m.file(name + "-current.pem")
	_, err := tls.LoadX509KeyPair(pair, pair)
	if _, there := os.Lstat(pair); err == nil || there != nil {
		return nil
	}
	m.cfg.Log.Warn("a certificate of this machine cannot be read: it is set aside, and another one is asked for", "file", pair, "err", err)
	if err := os.Rename(pair, pair+".damaged"); err != nil {
		return fmt.Errorf("set certificate aside: %w", err)
	}
	return nil
}

// lapsed says why a certificate that seems to have ended does not do; nil when
// it has ended, and there is a token to join anew by.
func (m *Member) lapsed(ctx context.Context, c *x509.Certificate) error {
	bad := &ClockError{Whose: "the certificate of this node", Here: m.now(), From: c.NotBefore, Until: c.NotAfter}
	// Whatever is answered is believed to be a time and no more: the worst that
	// it leads to is to wait, or to say that the certificate has ended.
	_, date, err := m.get(ctx, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}) //nolint:gosec // see above
	if err != nil {
		return fmt.Errorf("%w; the server was asked for the time: %w", bad, err)
	}
	if bad.There = date; !date.IsZero() && !date.After(c.NotAfter) {
		return bad
	}
	if m.cfg.Token == "" {
		return refused("the certificate of this machine in %s has expired on %s: join again, with --token", m.cfg.Dir, c.NotAfter.UTC().Format("2006-01-02"))
	}
	return nil
}

// keeping is a store of certificates that leaves nothing of one which it could
// not keep, and remembers why.
type keeping struct {
	certificate.Store
	dir, pair string
	why       *reason
}

// Update implements certificate.Store.
func (k keeping) Update(cert, key []byte) (*tls.Certificate, error) {
	before := k.files()
	c, err := k.Store.Update(cert, key)
	if err == nil {
		k.why.set(nil)
		return c, nil
	}
	if full(k.dir) {
		err = fmt.Errorf("the disk of %s is full: make room on it (%w)", k.dir, err)
	}
	for _, f := range k.files() {
		if !slices.Contains(before, f) {
			_ = os.Remove(f) //nolint:errcheck // it is no certificate, and nothing leads to it
		}
	}
	k.why.set(fmt.Errorf("the certificate of this node was signed, and cannot be kept: %w", err))
	return nil, err
}

func (k keeping) files() []string {
	names, _ := filepath.Glob(filepath.Join(k.dir, k.pair+"-2*.pem")) //nolint:errcheck // the pattern is good
	return names
}

// full says whether a file system has no room left.
func full(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && (st.Bavail == 0 || st.Files > 0 && st.Ffree == 0)
}

// reason is why there is no certificate yet.
type reason struct {
	mu  sync.Mutex
	err error
}

func (r *reason) set(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

func (r *reason) get() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// asked remembers what came of asking for a certificate.
type asked struct {
	http.RoundTripper
	m *Member
}

// RoundTrip implements http.RoundTripper.
func (a asked) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := a.RoundTripper.RoundTrip(r)
	why := &a.m.why
	switch {
	case err != nil && r.Context().Err() != nil:
	case err != nil:
		if bad := clockError(err, a.m.cfg.Server, a.m.now(), dateOf(nil)); bad != nil {
			why.set(bad)
			break
		}
		why.set(fmt.Errorf("%s does not answer (%w): see that it runs, and that this machine reaches it", a.m.cfg.Server, plain(err)))
	case resp.StatusCode == http.StatusUnauthorized:
		why.set(fmt.Errorf("%s does not know the token of this machine: it has expired or was deleted; make one with 'writ token create'", a.m.cfg.Server))
	case resp.StatusCode == http.StatusForbidden:
		why.set(fmt.Errorf("%s does not let the token of this machine ask for a certificate: it is not one by which nodes join; make one with 'writ token create'", a.m.cfg.Server))
	case resp.StatusCode >= 500:
		why.set(fmt.Errorf("%s answers %s when it is asked for a certificate", a.m.cfg.Server, resp.Status))
	case r.Method == http.MethodPost && resp.StatusCode < 300:
		why.set(nil)
	}
	return resp, err
}
