// Package join makes a machine a node of a cluster that it knows by an address
// and a token alone, and keeps it one.
//
// It watches the age of the machine's two certificates: the one it calls the
// API server with, and the one it serves by. It owns their files; the keys in
// them never leave the machine. It promises that nothing is believed of a
// cluster before the token, or the hash of its authority, has vouched for it,
// that a machine that has joined needs no token again, and that what no waiting
// mends is said at once. The requests and the files are those of
// k8s.io/client-go/util/certificate, as the kubelet has them.
package join

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/certificate"
)

// Config is everything a Member needs from outside.
type Config struct {
	// Server is the URL of the API server: https://192.0.2.1:6443. "" is the one
	// that the machine has joined.
	Server string
	// Token is a bootstrap token, abcdef.0123456789abcdef. Only a machine that
	// is no member yet needs it.
	Token string
	// CAHashes are hashes of public keys, of which one is that of the cluster's
	// authority: sha256:<64 hexadecimal digits>, as kubeadm has them. Without
	// one the signature of the token vouches alone: whoever else has the token
	// could stand for the cluster.
	CAHashes []string
	// NodeName is the name of the machine in the cluster.
	NodeName string
	// Hosts are the addresses that the machine is called by.
	Hosts []string
	// Dir is where the certificates are. It is made with mode 0700.
	Dir string
	// Verify returns the kubeconfig of a cluster-info that a token has signed.
	Verify func(info *corev1.ConfigMap, token string) (kubeconfig string, err error)
	// WriteFile replaces a file whole, and has it on disk when it returns.
	WriteFile func(path string, data []byte, mode os.FileMode) error
	Log       *slog.Logger
}

// Member is a machine that joins, or has joined.
type Member struct {
	cfg     Config
	client  certificate.Manager
	serving certificate.Manager
	servers *servers
}

// New returns a member; it starts nothing.
func New(cfg Config) *Member {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Member{cfg: cfg}
}

const (
	retry = 5 * time.Second        // until what may pass is tried again
	look  = 100 * time.Millisecond // at whether a certificate has come
)

// userAgent is who writes, for the server and in managedFields: the name of this
// binary is kept for what Git declares.
const userAgent = "kubelet"

// The names of the files, of which <name>-current.pem is the one in force.
const (
	clientPair  = "kubelet-client"
	servingPair = "kubelet-server"
	caFile      = "ca.crt"
	serverFile  = "server" // the URL, for a start that names none
)

// Join waits until the machine may call the API server as a node. What may pass
// by itself, such as a server that does not answer, is said once and tried
// again; a RefusedError does not pass.
func (m *Member) Join(ctx context.Context) error {
	if err := os.MkdirAll(m.cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("make directory of certificates: %w", err)
	}
	if b, err := os.ReadFile(m.file(serverFile)); err == nil && m.cfg.Server == "" {
		m.cfg.Server = strings.TrimSpace(string(b))
	}
	m.servers = newServers(m.file(serversFile), m.cfg.Server, m.cfg.WriteFile, m.cfg.Log)
	if err := m.open(); err != nil {
		return err
	}
	if m.client.Current() == nil {
		if err := m.believe(ctx); err != nil {
			return err
		}
	}
	m.client.Start()
	m.serving.Start()
	err := m.await(ctx)
	if err != nil {
		m.stop()
	}
	return err
}

// believe finds the cluster's authority.
func (m *Member) believe(ctx context.Context) error {
	if m.cfg.Token == "" {
		if _, err := os.Lstat(m.file(clientPair + "-current.pem")); !errors.Is(err, fs.ErrNotExist) {
			return refused("the certificate of this machine in %s has expired: join again, with --token", m.cfg.Dir)
		}
		return refused("this machine is no member of a cluster: name one with --server and --token, or a --data-dir that a server has prepared")
	}
	said := ""
	for {
		ca, err := m.discover(ctx)
		var final *RefusedError
		switch {
		case err == nil:
			if err := m.cfg.WriteFile(m.file(serverFile), []byte(m.cfg.Server+"\n"), 0o600); err != nil {
				return err
			}
			return m.cfg.WriteFile(m.file(caFile), ca, 0o600)
		case ctx.Err() != nil, errors.As(err, &final):
			return err
		case err.Error() != said:
			said = err.Error()
			m.cfg.Log.Warn("cluster not found yet", "server", m.cfg.Server, "err", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retry):
		}
	}
}

// await waits for the certificate that the cluster's signer makes.
func (m *Member) await(ctx context.Context) error {
	began, said := time.Now(), false
	for m.client.Current() == nil {
		if !said && time.Since(began) > retry {
			said = true
			m.cfg.Log.Warn("waiting for the certificate of this node: somebody must approve its CertificateSigningRequest, or the token is not one that may join",
				"server", m.cfg.Server, "node", m.cfg.NodeName)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(look):
		}
	}
	m.cfg.Log.Info("member of the cluster", "server", m.cfg.Server, "node", m.cfg.NodeName)
	return nil
}

// Run keeps the certificates until ctx ends. Join must have succeeded.
func (m *Member) Run(ctx context.Context) error {
	<-ctx.Done()
	m.stop()
	return nil
}

func (m *Member) stop() {
	m.client.Stop()
	m.serving.Stop()
}

// Client is how the machine calls the API servers from now on. A certificate
// that is renewed is taken up by itself, and so is another server when the one
// in use is gone.
func (m *Member) Client() *rest.Config {
	pair := m.file(clientPair + "-current.pem")
	return &rest.Config{Host: m.cfg.Server, UserAgent: userAgent, Dial: m.servers.Dial, WrapTransport: m.servers.Wrap,
		TLSClientConfig: rest.TLSClientConfig{CAFile: m.file(caFile), CertFile: pair, KeyFile: pair, ServerName: serverName}}
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
	if c := m.serving.Current(); c != nil {
		return c, nil
	}
	return nil, errors.New("the certificate of this node is not signed yet")
}

func (m *Member) file(name string) string { return filepath.Join(m.cfg.Dir, name) }

// RefusedError is what no waiting mends.
type RefusedError struct{ why string }

func (e *RefusedError) Error() string { return e.why }

// Final says that it does not pass.
func (e *RefusedError) Final() bool { return true }

func refused(format string, args ...any) error { return &RefusedError{fmt.Sprintf(format, args...)} }
