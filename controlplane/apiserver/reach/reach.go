// Package reach is the way from the API server to what others have told it the
// address of: the agents of nodes, pods, and the endpoints of Services.
//
// It owns connections and nothing else. It promises that no connection leads to
// an API server, to the store of one, to this machine's loopback, to link-local,
// multicast or unspecified addresses, or to the range of Services, whoever wrote
// the address and whatever a name resolves to: the address is judged when it is
// dialled. And it promises that who answers in the name of a node is that node.
package reach

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// Config is everything that a Way needs from outside.
type Config struct {
	// TLS is for calls to nodes: the authorities that vouch for them, and the
	// server's client certificate. nil has no client certificate.
	TLS *tls.Config
	// Hosts returns the addresses of a node, the best first.
	Hosts func(node string) ([]string, error)
	// Barred says where the cluster's own servers are. nil: nowhere.
	Barred func() Barred
	// Also are addresses that may be called all the same, on loopback: those of
	// tests.
	Also []netip.Addr
}

// Way makes calls to nodes and to pods. The two do not share connections: only
// nodes get to see the server's client certificate.
type Way struct {
	// Nodes calls agents, by URLs whose host is the name of the node
	// (https://<node>:<port>). The certificate that answers must be that of
	// system:node:<node>.
	Nodes *http.Transport
	// Pods calls addresses, and believes any certificate, as upstream: a pod's
	// is nobody's we know.
	Pods *http.Transport
}

// New returns a way; it starts nothing.
func New(cfg Config) *Way {
	d := &dialer{cfg, net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}}
	d.net.ControlContext = d.control
	transport := func(dial func(context.Context, string, string) (net.Conn, error), t *tls.Config) *http.Transport {
		return &http.Transport{
			DialContext: dial, TLSClientConfig: t, TLSHandshakeTimeout: 10 * time.Second,
			MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute, DisableCompression: true,
		}
	}
	return &Way{
		Nodes: transport(d.node, toNodes(cfg.TLS)),
		Pods:  transport(d.net.DialContext, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}), //nolint:gosec // see Pods
	}
}

// toNodes has who answers be the node whose name is in the URL.
func toNodes(cfg *tls.Config) *tls.Config {
	if cfg == nil {
		cfg = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	cfg = cfg.Clone()
	cfg.NextProtos = []string{"http/1.1"} // streams upgrade the connection, which HTTP/2 cannot
	cfg.VerifyConnection = func(s tls.ConnectionState) error {
		return Identity(s.ServerName, s.PeerCertificates[0].Subject.CommonName)
	}
	return cfg
}

// Identity says whether the common name of a certificate is a node's. That its
// names are, too, crypto/tls has seen: they are no proof alone, since nodes had
// certificates for addresses that they had written themselves.
func Identity(node, commonName string) error {
	if want := "system:node:" + node; commonName != want {
		return fmt.Errorf("node %s answers as %q: its serving certificate must be that of %q", node, commonName, want)
	}
	return nil
}

// Close ends connections that nobody uses.
func (w *Way) Close() {
	w.Nodes.CloseIdleConnections()
	w.Pods.CloseIdleConnections()
}

type dialer struct {
	cfg Config
	net net.Dialer
}

// node calls a node by its name.
func (d *dialer) node(ctx context.Context, network, address string) (net.Conn, error) {
	name, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("call node: %w", err)
	}
	if d.cfg.Hosts == nil {
		return nil, fmt.Errorf("call node %s: it has no address", name)
	}
	hosts, err := d.cfg.Hosts(name)
	if err != nil {
		return nil, fmt.Errorf("call node %s: %w", name, err)
	}
	if len(hosts) == 0 {
		return nil, fmt.Errorf("call node %s: it has no address", name)
	}
	return d.net.DialContext(ctx, network, net.JoinHostPort(hosts[0], port))
}

// control judges an address when the name it came from has been resolved.
func (d *dialer) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("address %q not allowed: %w", address, err)
	}
	for _, a := range d.cfg.Also {
		if a == to.Addr().Unmap() {
			return nil
		}
	}
	var b Barred
	if d.cfg.Barred != nil {
		b = d.cfg.Barred()
	}
	if why := b.Refuse(to); why != "" {
		return &RefusedError{to, why}
	}
	return nil
}

// RefusedError says that an address is none that the server calls.
type RefusedError struct {
	To  netip.AddrPort
	Why string
}

func (e *RefusedError) Error() string { return fmt.Sprintf("address %s not allowed: %s", e.To, e.Why) }
