package join

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
)

// infoPath is where every cluster says what its authority is, to anybody
// (KEP-130).
const infoPath = "/api/v1/namespaces/kube-public/configmaps/cluster-info"

const (
	maxInfo = 1 << 20
	within  = 10 * time.Second // an answer must come
)

// Discover returns the cluster's authority in PEM, vouched for by the token and
// the hashes. A RefusedError does not pass by itself.
func (m *Member) Discover(ctx context.Context) ([]byte, error) { return m.discover(ctx) }

// discover returns the cluster's authority in PEM. The first connection
// believes nobody; what it brings is held against the token and the hashes, and
// a second connection shows that the server is of that authority.
func (m *Member) discover(ctx context.Context) ([]byte, error) {
	u, err := url.Parse(m.cfg.Server)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, refused("--server %q is not a URL such as https://192.0.2.1:6443", m.cfg.Server)
	}
	if err := checkHashes(m.cfg.CAHashes); err != nil {
		return nil, err
	}
	info, date, err := m.get(ctx, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}) //nolint:gosec // verified below
	if err != nil {
		return nil, err
	}
	kubeconfig, err := m.cfg.Verify(info, m.cfg.Token)
	if err != nil {
		return nil, refused("%v: join by a token that 'writ token create' prints", err)
	}
	ca, certs, err := authority([]byte(kubeconfig))
	if err != nil {
		return nil, err
	}
	if len(m.cfg.CAHashes) > 0 && !slices.ContainsFunc(certs, func(c *x509.Certificate) bool {
		return slices.ContainsFunc(m.cfg.CAHashes, func(h string) bool { return same(Hash(c), h) })
	}) {
		return nil, refused("the authority of %s has the hash %s, which --ca-hash does not name: it is another cluster, or somebody stands between", m.cfg.Server, Hash(certs[0]))
	}
	pool := x509.NewCertPool()
	for _, c := range certs {
		pool.AddCert(c)
	}
	if _, _, err := m.get(ctx, &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12, Time: m.now}); err != nil {
		if bad := clockError(err, m.cfg.Server, m.now(), date); bad != nil {
			return nil, bad
		}
		var unknown *tls.CertificateVerificationError
		if errors.As(err, &unknown) {
			return nil, refused("%s knows the cluster and is not of it: %v", m.cfg.Server, unknown.Err)
		}
		return nil, err
	}
	return ca, nil
}

// get asks for cluster-info. It also returns what the server's clock says.
func (m *Member) get(ctx context.Context, t *tls.Config) (*corev1.ConfigMap, time.Time, error) {
	none := time.Time{}
	server := m.cfg.Server
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(server, "/")+infoPath, nil)
	if err != nil {
		return nil, none, refused("--server: %v", err)
	}
	req.Header.Set("Accept", "application/json")
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: t, DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment}}
	resp, err := c.Do(req)
	if err != nil {
		return nil, none, fmt.Errorf("%s does not answer (%w): see that it runs, and that this machine reaches it", server, plain(err))
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxInfo))
	if err != nil {
		return nil, none, fmt.Errorf("read cluster-info: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, none, fmt.Errorf("%s answers %s when it is asked for the cluster: see that it is a server of Writ", server, resp.Status)
	}
	info := &corev1.ConfigMap{}
	if err := json.Unmarshal(body, info); err != nil {
		return nil, none, fmt.Errorf("read cluster-info: %w", err)
	}
	return info, dateOf(resp), nil
}

// plain leaves out the URL, which has been said.
func plain(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// authority reads the authorities that a kubeconfig names.
func authority(kubeconfig []byte) ([]byte, []*x509.Certificate, error) {
	cfg, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, nil, fmt.Errorf("read cluster-info: %w", err)
	}
	for _, c := range cfg.Clusters {
		var certs []*x509.Certificate
		for rest := c.CertificateAuthorityData; ; {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				break
			}
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return nil, nil, fmt.Errorf("read authority of cluster-info: %w", err)
			}
			certs = append(certs, cert)
		}
		if len(certs) > 0 {
			return c.CertificateAuthorityData, certs, nil
		}
	}
	return nil, nil, errors.New("read cluster-info: it names no authority")
}

// Hash is how an authority is named on a command line: the SHA-256 of its
// public key (RFC 7469, section 2.4, in hexadecimal, as kubeadm writes it).
func Hash(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return hashPrefix + hex.EncodeToString(sum[:])
}

const hashPrefix = "sha256:"

func same(a, b string) bool {
	return subtle.ConstantTimeCompare([]byte(a), []byte(strings.ToLower(b))) == 1
}

func checkHashes(hashes []string) error {
	for _, h := range hashes {
		digits, ok := strings.CutPrefix(strings.ToLower(h), hashPrefix)
		if b, err := hex.DecodeString(digits); !ok || err != nil || len(b) != sha256.Size {
			return refused("--ca-hash %q is not sha256: and 64 hexadecimal digits", h)
		}
	}
	return nil
}
