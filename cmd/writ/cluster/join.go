package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/rest"

	"github.com/writ-os/writ/controlplane/auth/bootstrap"
	"github.com/writ-os/writ/controlplane/auth/pki"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/durable"
	"github.com/writ-os/writ/nodeagent/join"
	"github.com/writ-os/writ/schema"
)

// nodeCredentials are how a node calls the API server and how it is called.
type nodeCredentials struct {
	caller  *rest.Config
	serving *tls.Config
	keep    func(ctx context.Context) error // until ctx ends
	learn   func(servers []string)          // where they are; nil: no matter
}

// credentials are those that a server on this machine has prepared, or else
// those of a machine that joins.
func (n *Node) credentials(ctx context.Context) (nodeCredentials, error) {
	if _, err := os.Stat(n.cfg.file("pki")); errors.Is(err, os.ErrNotExist) {
		return n.joined(ctx)
	}
	caller, err := loadKubeconfig(n.cfg.Kubeconfig, n.cfg.Server)
	if err != nil {
		return nodeCredentials{}, err
	}
	a, err := pki.Open(pki.Config{Dir: n.cfg.file("pki")})
	if err != nil {
		return nodeCredentials{}, err
	}
	k, err := a.Kubelet()
	if err != nil {
		return nodeCredentials{}, err
	}
	cert := k.NewServingCertificate(pki.Serving{Name: "system:node:" + n.cfg.NodeName, Hosts: []string{n.cfg.NodeName, n.address().String()}})
	return nodeCredentials{caller, servingTLS(a.Pool(), cert.Get), func(ctx context.Context) error { <-ctx.Done(); return nil }, nil}, nil
}

// joined waits until the machine is a member of the cluster.
func (n *Node) joined(ctx context.Context) (nodeCredentials, error) {
	m := join.New(join.Config{Server: n.cfg.Server, Token: n.cfg.Token, CAHashes: n.cfg.CAHashes, NodeName: n.cfg.NodeName, Machine: n.machine,
		Hosts: []string{n.address().String()}, Dir: n.cfg.file("node", "pki"), Verify: bootstrap.Verify, WriteFile: durable.WriteFile, Log: n.log("join")})
	if err := m.Join(ctx); err != nil {
		return nodeCredentials{}, fmt.Errorf("join the cluster: %w", err)
	}
	ca, err := m.Authority()
	if err != nil {
		return nodeCredentials{}, err
	}
	callers := x509.NewCertPool()
	if !callers.AppendCertsFromPEM(ca) {
		return nodeCredentials{}, errors.New("join the cluster: its authority is no certificate")
	}
	return nodeCredentials{m.Client(), servingTLS(callers, m.Serving), m.Run, m.Learn}, nil
}

func servingTLS(callers *x509.CertPool, get func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: get, ClientCAs: callers}
}

// followServers tells a node of all API servers, so that it has another when one
// is gone.
func followServers(ctx context.Context, cache client.Cache, pods netip.Prefix, learn func([]string)) error {
	err := cache.Subscribe(ctx, schema.ResourceFor[*discoveryv1.EndpointSlice](), func(ev client.Event) {
		if s, ok := ev.Object.(*discoveryv1.EndpointSlice); ok && schema.KeyOf(s) == apiService && ev.Type != client.Deleted {
			learn(serverAddresses(s, pods))
		}
	})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("subscribe to the servers: %w", err)
	}
	return nil
}

var apiService = schema.Key{Namespace: "default", Name: "kubernetes"}

// serverAddresses are those of the Service kubernetes that other machines reach:
// a server that listens to its own pods alone is found as it was before.
func serverAddresses(s *discoveryv1.EndpointSlice, pods netip.Prefix) []string {
	if len(s.Ports) != 1 || s.Ports[0].Port == nil {
		return nil
	}
	var out []string
	for _, e := range s.Endpoints {
		for _, a := range e.Addresses {
			if ip, err := netip.ParseAddr(a); err == nil && !pods.Contains(ip) {
				out = append(out, net.JoinHostPort(a, strconv.Itoa(int(*s.Ports[0].Port))))
			}
		}
	}
	return out
}
