// Package oracle runs Kubernetes' own API server over an etcd in this process.
//
// It is what the rest of the module compares with: answers are recorded from
// it, and it is started on copies of this project's data. It owns one data
// directory (etcd, keys, kubeconfig) and one port on the loopback address. It
// promises that nothing it started outlives Run, and that a data directory can
// be used again.
package oracle

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"golang.org/x/sync/errgroup"
)

// ServiceCIDR is the range of Service addresses, as this project's clusters
// have it.
const ServiceCIDR = "10.96.0.0/16"

// Config says what to run.
type Config struct {
	// Dir holds everything: etcd/, pki/, admin.kubeconfig, kube-apiserver.log.
	Dir string
	// Etcd is the data directory of etcd; "" is Dir/etcd.
	Etcd string
	// Binary is kube-apiserver.
	Binary string
	// Port to serve on; 0 is any.
	Port int
	// Flags are added to those of kube-apiserver; the last of a name wins.
	Flags []string
}

// Oracle is one API server and its etcd.
type Oracle struct {
	cfg   Config
	pki   *authority
	url   string
	etcd  string
	peer  string
	ready chan struct{}
}

// New makes keys and kubeconfig and chooses ports. It starts nothing.
func New(cfg Config) (*Oracle, error) {
	if cfg.Etcd == "" {
		cfg.Etcd = filepath.Join(cfg.Dir, "etcd")
	}
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	if cfg.Port == 0 {
		cfg.Port = ports[0]
	}
	o := &Oracle{cfg: cfg, ready: make(chan struct{}),
		url: "https://127.0.0.1:" + strconv.Itoa(cfg.Port), etcd: "http://127.0.0.1:" + strconv.Itoa(ports[1]), peer: "http://127.0.0.1:" + strconv.Itoa(ports[2])}
	if o.pki, err = openAuthority(filepath.Join(cfg.Dir, "pki")); err != nil {
		return nil, err
	}
	return o, o.pki.writeKubeconfig(o.Kubeconfig(), o.url)
}

// URL of the API server.
func (o *Oracle) URL() string { return o.url }

// Kubeconfig is the file with a credential of system:masters.
func (o *Oracle) Kubeconfig() string { return filepath.Join(o.cfg.Dir, "admin.kubeconfig") }

// TLS is what a client needs to talk as a user; "" is nobody.
func (o *Oracle) TLS(user string, groups ...string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.pki.pool()}
	if user == "" {
		return c, nil
	}
	cert, err := o.pki.client(user, groups)
	if err != nil {
		return nil, err
	}
	c.Certificates = []tls.Certificate{cert}
	return c, nil
}

// Ready is closed when /readyz says so.
func (o *Oracle) Ready() <-chan struct{} { return o.ready }

// Run serves until ctx ends or a part fails.
func (o *Oracle) Run(ctx context.Context) error {
	e, err := o.startEtcd(ctx)
	if err != nil {
		return err
	}
	defer e.Close()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		select {
		case err := <-e.Err():
			return fmt.Errorf("etcd: %w", err)
		case <-ctx.Done():
			return nil
		}
	})
	g.Go(func() error { return o.serve(ctx) })
	g.Go(func() error { return o.await(ctx) })
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func (o *Oracle) startEtcd(ctx context.Context) (*embed.Etcd, error) {
	client, err := url.Parse(o.etcd)
	if err != nil {
		return nil, err
	}
	peer, err := url.Parse(o.peer)
	if err != nil {
		return nil, err
	}
	c := embed.NewConfig()
	c.Dir, c.Name = o.cfg.Etcd, "default"
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.LogLevel, c.LogOutputs = "error", []string{filepath.Join(o.cfg.Dir, "etcd.log")}
	e, err := embed.StartEtcd(c)
	if err != nil {
		return nil, fmt.Errorf("start etcd on %s: %w", c.Dir, err)
	}
	select {
	case <-e.Server.ReadyNotify():
		return e, nil
	case <-ctx.Done():
		e.Close()
		return nil, ctx.Err()
	case <-time.After(30 * time.Second):
		e.Close()
		return nil, fmt.Errorf("etcd on %s was not ready within 30 s", c.Dir)
	}
}

// serve runs kube-apiserver until ctx ends.
func (o *Oracle) serve(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(o.cfg.Dir, "kube-apiserver.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, o.cfg.Binary, o.flags()...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	err = cmd.Run()
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("kube-apiserver ended (%v); its last words are in %s", err, log.Name())
}

func (o *Oracle) flags() []string {
	return append([]string{
		"--etcd-servers=" + o.etcd,
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(o.cfg.Port),
		"--endpoint-reconciler-type=none",
		"--tls-cert-file=" + o.pki.file("server.crt"),
		"--tls-private-key-file=" + o.pki.file("server.key"),
		"--client-ca-file=" + o.pki.file("ca.crt"),
		"--requestheader-client-ca-file=" + o.pki.file("ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + o.pki.file("front-proxy.crt"),
		"--proxy-client-key-file=" + o.pki.file("front-proxy.key"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + o.pki.file("sa.key"),
		"--service-account-signing-key-file=" + o.pki.file("sa.key"),
		"--authorization-mode=Node,RBAC",
		"--service-cluster-ip-range=" + ServiceCIDR,
		"--allow-privileged=true",
		"--shutdown-delay-duration=0s",
	}, o.cfg.Flags...)
}

// await polls /readyz; its hooks take seconds.
func (o *Oracle) await(ctx context.Context) error {
	conf, err := o.TLS("oracle", "system:masters")
	if err != nil {
		return err
	}
	tr := &http.Transport{TLSClientConfig: conf}
	defer tr.CloseIdleConnections()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if resp, err := (&http.Client{Transport: tr, Timeout: 2 * time.Second}).Get(o.url + "/readyz"); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				close(o.ready)
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// freePorts are ports on the loopback address that nobody listens on now.
func freePorts(n int) (ports []int, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
