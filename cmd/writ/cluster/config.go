// Package cluster wires the parts into processes: the control plane, and a
// node. It is the only place where they meet, and it decides nothing.
//
// It owns the data directory (one process holds its lock), the listeners and
// the order of start. It promises that the first error of a part ends the
// process, and that everything under the data directory survives a kill at any
// moment.
package cluster

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"time"

	"github.com/writ-os/writ/controlplane/controllers/nodeipam"
)

// Repository says which Git repository the cluster follows.
type Repository struct {
	// URL is https://, ssh://, file:// or a directory; "" is the built-in remote.
	URL    string
	Branch string // default "main"
	Path   string // default "."
	// Credentials for URL.
	Username, Password, BearerToken string
	SSHKey, KnownHosts, CA          string // files
	Interval                        time.Duration
}

// Config is what the flags say.
type Config struct {
	DataDir string
	// Listen is the address of the API server, host:port.
	Listen     string
	Repository Repository
	// Name is what the cluster is called to others, in notifications.
	Name string
	// ExternalURL is where people reach the server; "": where it listens.
	ExternalURL string
	// Seed is the example that the built-in remote begins with; "" none.
	Seed string
	// NodeName is this machine's name, for its credentials.
	NodeName string
	// NodeIP is the address of this machine for others; invalid: found.
	NodeIP netip.Addr
	// ClusterCIDR is the range of pod addresses, the same on every machine.
	// Default nodeipam.DefaultPodCIDR, 10.244.0.0/14.
	ClusterCIDR netip.Prefix
	// NodeCIDRMaskSize is the prefix length of one node's part of it. Default 24.
	NodeCIDRMaskSize int
	// PeerAddress is host:port by which other servers reach this one; "": the
	// machine's address, port 2380.
	PeerAddress string
	// Join is the cluster that this server becomes one of.
	Join Join
	// Authority is a folder with ca.crt and ca.key that the cluster begins with;
	// "": it makes its own.
	Authority string
	// FirstToken is one by which nodes join a cluster that begins; "" none.
	FirstToken string
	// Still leaves out controllers, scheduler and reconciler: the API alone,
	// where objects stay as they were written. For comparisons.
	Still bool
	// API are the API server's own flags.
	API API
	// Version is what the server says it is.
	Version string
	Log     *slog.Logger
	// Progress is told what the start waits for. May be nil.
	Progress func(step, detail string)
}

// The addresses that every cluster begins with.
var (
	ServiceCIDR = netip.MustParsePrefix("10.96.0.0/16")
	APIService  = netip.MustParseAddr("10.96.0.1")
	DNSService  = netip.MustParseAddr("10.96.0.10")
)

// Domain of Services.
const Domain = "cluster.local"

// RepositoryName is the name of the repository that the flags give.
const RepositoryName = "cluster"

func (c Config) file(parts ...string) string {
	return filepath.Join(append([]string{c.DataDir}, parts...)...)
}

// podCIDR is the range of pod addresses.
func (c Config) podCIDR() netip.Prefix {
	if c.ClusterCIDR.IsValid() {
		return c.ClusterCIDR
	}
	return nodeipam.DefaultPodCIDR
}

// CheckClusterCIDR says what is wrong with a range of pod addresses and the
// size of a node's part of it.
func CheckClusterCIDR(all netip.Prefix, mask int) error {
	switch {
	case !all.Addr().Is4():
		return fmt.Errorf("--cluster-cidr %s: must be an IPv4 range", all)
	case all != all.Masked():
		return fmt.Errorf("--cluster-cidr %s: has bits beyond its prefix: did you mean %s", all, all.Masked())
	case mask < all.Bits() || mask > 29:
		return fmt.Errorf("--node-cidr-mask-size %d: must be from %d, the prefix of --cluster-cidr, to 29", mask, all.Bits())
	case all.Overlaps(ServiceCIDR):
		return fmt.Errorf("--cluster-cidr %s: overlaps the range of services, %s", all, ServiceCIDR)
	}
	return nil
}

func (c Config) step(step, detail string) {
	if c.Progress != nil {
		c.Progress(step, detail)
	}
}

// port of the API server.
func (c Config) port() uint16 {
	_, p, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return 6443
	}
	n, err := strconv.ParseUint(p, 10, 16)
	if err != nil {
		return 6443
	}
	return uint16(n)
}

// portOf is the port of host:port; "" of what is none.
func portOf(hostPort string) string {
	_, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		return ""
	}
	return port
}

// server is the URL under which this machine reaches the API server.
func (c Config) server() string {
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return "https://" + c.Listen
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "https://" + net.JoinHostPort(host, port)
}

// The files that people and nodes use.
func (c Config) ViewerKubeconfig() string { return c.file("viewer.kubeconfig") }

// AdminKubeconfig is the break-glass credential, good for an hour.
func (c Config) AdminKubeconfig() string { return c.file("admin.kubeconfig") }

// PusherGitConfig is the Git configuration with a pusher's credential.
func (c Config) PusherGitConfig() string { return c.file("pusher.gitconfig") }

// NodeKubeconfig is the credential of this machine's node.
func (c Config) NodeKubeconfig() string { return c.file("node.kubeconfig") }

// Remote is the URL of the built-in Git remote.
func (c Config) Remote() string { return c.server() + "/git/" + RepositoryName + ".git" }

// BuiltIn says that the cluster serves its own repository.
func (c Config) BuiltIn() bool { return c.Repository.URL == "" }
