// Package join makes a machine a node of a cluster that it knows by an address
// and a token alone, and keeps it one.
//
// It watches the age of the machine's two certificates: the one it calls the
// API server with, and the one it serves by. It owns their files; the keys in
// them never leave the machine. It promises that nothing is believed of a
// cluster before the token, or the hash of its authority, has vouched for it,
// that a machine that has joined needs no token again, that what no waiting mends
// is said at once, and that what may pass (a server that is away, a clock that is
// years off, a disk that is full, another machine of this name) is said in a
// sentence and tried again until it has passed. The requests and the files are
// those of k8s.io/client-go/util/certificate, as the kubelet has them.
package join

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/certificate"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/nodeagent/twin"
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
	// Machine is this one; default twin.This.
	Machine twin.Machine
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
	servers *servers
	now     func() time.Time
	pause   time.Duration // before the second try
	clock   clockWords
	why     reason

	mu      sync.RWMutex
	client  certificate.Manager
	serving certificate.Manager
}

// New returns a member; it starts nothing.
func New(cfg Config) *Member {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Member{cfg: cfg, now: time.Now, pause: retry}
}

const (
	retry     = 5 * time.Second        // until what may pass is tried again,
	retryLast = 30 * time.Second       // and at last
	look      = 100 * time.Millisecond // at whether a certificate has come
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

// Join waits until the machine may call the API server as the node of its name.
// What may pass by itself is said once and tried again; a RefusedError does not
// pass.
func (m *Member) Join(ctx context.Context) error {
	if b, err := os.ReadFile(m.file(serverFile)); err == nil && m.cfg.Server == "" {
		m.cfg.Server = strings.TrimSpace(string(b))
	}
	m.servers = newServers(m.file(serversFile), m.cfg.Server, m.cfg.WriteFile, m.cfg.Log)
	if err := m.believe(ctx); err != nil {
		return err
	}
	if err := m.open(); err != nil {
		return err
	}
	err := m.await(ctx)
	if err == nil {
		err = m.claim(ctx)
	}
	if err != nil {
		m.stop()
	}
	return err
}

// believe waits until there is a certificate, or an authority to ask for one.
func (m *Member) believe(ctx context.Context) error {
	said := ""
	for wait := m.pause; ; wait = min(2*wait, retryLast) {
		err := m.approach(ctx)
		var final *RefusedError
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil, errors.As(err, &final):
			return err
		case subject(err) != said:
			said = subject(err)
			m.cfg.Log.Warn("not a member of the cluster yet, it is tried again", "node", m.cfg.NodeName, "err", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// subject is what an error is about: a clock that goes on makes no news.
func subject(err error) string {
	var bad *ClockError
	if errors.As(err, &bad) {
		return "clock"
	}
	return err.Error()
}

// approach comes as near to the cluster as it can without a certificate that is
// valid now.
func (m *Member) approach(ctx context.Context) error {
	if err := os.MkdirAll(m.cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("make directory of certificates: %w", err)
	}
	c, err := m.held()
	switch {
	case err != nil && m.cfg.Token == "":
		return refused("the certificate of this machine in %s cannot be read (%v): join again, with --token", m.cfg.Dir, err)
	case c != nil && !m.now().After(c.NotAfter):
		return nil
	case c != nil:
		if err := m.lapsed(ctx, c); err != nil {
			return err
		}
	case m.cfg.Token == "":
		return refused("this machine is no member of a cluster: name one with --server and --token, or a --data-dir that a server has prepared")
	}
	ca, err := m.discover(ctx)
	if err != nil {
		return err
	}
	for name, b := range map[string][]byte{serverFile: []byte(m.cfg.Server + "\n"), caFile: ca} {
		if err := m.cfg.WriteFile(m.file(name), b, 0o600); err != nil {
			if full(m.cfg.Dir) {
				err = fmt.Errorf("the disk of %s is full: make room on it (%w)", m.cfg.Dir, err)
			}
			return fmt.Errorf("the cluster was found, and cannot be remembered: %w", err)
		}
	}
	return nil
}

// await waits for the certificate that the cluster's signer makes.
func (m *Member) await(ctx context.Context) error {
	began, said := m.running(), ""
	for {
		if client, _ := m.pairs(); client.Current() != nil {
			break
		}
		why := m.why.get()
		if why == nil && m.running()-began > m.pause {
			why = errors.New("somebody must approve its CertificateSigningRequest (kubectl get csr); where the cluster has a node of this name already, delete that Node first")
		}
		if why != nil && subject(why) != said {
			said = subject(why)
			m.cfg.Log.Warn("waiting for the certificate of this node", "node", m.cfg.NodeName, "err", why)
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

// claim waits while another machine is the node. A server that does not answer
// holds up nothing: what runs here runs on without it, and whoever registers the
// node asks again.
func (m *Member) claim(ctx context.Context) error {
	c, err := client.NewRemote(client.RemoteConfig{Config: m.Client(), FieldManager: userAgent})
	if err != nil {
		return fmt.Errorf("look whether the name is free: %w", err)
	}
	name := twin.New(twin.Config{NodeName: m.cfg.NodeName, Client: c, Machine: m.cfg.Machine, Log: m.cfg.Log})
	var taken *twin.TakenError
	if err := name.Check(ctx); !errors.As(err, &taken) {
		return ctx.Err()
	}
	return name.Wait(ctx)
}

func (m *Member) file(name string) string { return filepath.Join(m.cfg.Dir, name) }

// RefusedError is what no waiting mends.
type RefusedError struct{ why string }

func (e *RefusedError) Error() string { return e.why }

// Final says that it does not pass.
func (e *RefusedError) Final() bool { return true }

func refused(format string, args ...any) error { return &RefusedError{fmt.Sprintf(format, args...)} }
