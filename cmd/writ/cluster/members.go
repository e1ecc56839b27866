package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/writ-os/writ/cmd/writ/member"
	"github.com/writ-os/writ/controlplane/apiserver"
	"github.com/writ-os/writ/controlplane/auth/bootstrap"
	"github.com/writ-os/writ/controlplane/auth/pki"
	"github.com/writ-os/writ/controlplane/durable"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/nodeagent/join"
)

// Join says which cluster a server joins; the zero value is none.
type Join struct {
	// Server is the URL of a server that is there.
	Server string
	// Token is one of 'writ token create --role server'. CAHashes vouch for the
	// authority of the cluster; a server needs one.
	Token    string
	CAHashes []string
}

// ErrAgain ends a server that is to be started again at once, as it was: it was
// alone and becomes the first of several.
var ErrAgain = errors.New("this server starts again, as the first of several")

// peerPort is where servers hear each other, as etcd's members do.
const peerPort = "2380"

// What servers share besides their keys: files below the data directory.
const (
	sharedDir        = "shared"
	sharedEncryption = sharedDir + "/encryption.yaml"
	sharedSSHKey     = sharedDir + "/repo-ssh-key"
	sharedKnownHosts = sharedDir + "/repo-known-hosts"
	sharedCA         = sharedDir + "/repo-ca.crt"
)

// alike are the settings that must not differ between the servers of a cluster: each
// of them may be the next to lead.
type alike struct {
	Repository Repository `json:"repository"`
	Name       string     `json:"name,omitempty"`
}

// openMembers joins, if the flags say so, and takes over what the servers of the
// cluster have alike.
func (p *ControlPlane) openMembers(ctx context.Context) error {
	if j := p.cfg.Join; j.Server != "" {
		p.cfg.step("join", j.Server)
		if err := p.joinServers(ctx, j); err != nil {
			return err
		}
	}
	state, err := member.ReadState(p.cfg.DataDir)
	if err != nil || state == nil {
		return err
	}
	p.member = state
	if state.Settings != nil {
		if err := p.takeSettings(state.Settings); err != nil {
			return err
		}
	}
	p.peers, err = pki.OpenPeers(pki.Config{Dir: p.cfg.file("pki")})
	return err
}

func (p *ControlPlane) joinServers(ctx context.Context, j Join) error {
	at, err := p.peerAddress()
	if err != nil {
		return err
	}
	if p.told() == "" {
		return fmt.Errorf("join as a server: others do not reach %s: start it with --listen 0.0.0.0:%d", p.cfg.Listen, p.cfg.port())
	}
	discover := join.New(join.Config{Server: j.Server, Token: j.Token, CAHashes: j.CAHashes, Verify: bootstrap.Verify, Log: p.log("join")}).Discover
	m := &member.Join{DataDir: p.cfg.DataDir, Server: j.Server, Token: j.Token, Log: p.log("join"),
		Discover: func(ctx context.Context) ([]byte, error) {
			if len(j.CAHashes) == 0 { // whoever stands between would be followed, and given every Secret
				return nil, errNoHash{}
			}
			return discover(ctx)
		},
		Request: member.Request{Name: p.cfg.NodeName, URL: peerURL(at), Version: p.cfg.Version},
		Files:   []string{sharedEncryption, sharedSSHKey, sharedKnownHosts, sharedCA}}
	return m.Run(ctx)
}

type errNoHash struct{}

func (errNoHash) Error() string {
	return "a server joins with --ca-hash, as 'writ token create --role server' prints it"
}
func (errNoHash) Final() bool { return true }

// takeSettings takes over the settings of the cluster where the flags say
// nothing.
func (p *ControlPlane) takeSettings(text []byte) error {
	var s alike
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("read settings of the cluster: %w", err)
	}
	if p.cfg.Repository.URL == "" {
		p.cfg.Repository = s.Repository
		r := &p.cfg.Repository
		for _, f := range []*string{&r.SSHKey, &r.KnownHosts, &r.CA} {
			if *f != "" {
				*f = p.cfg.file(*f)
			}
		}
	}
	p.cfg.Name = or(p.cfg.Name, s.Name)
	if p.cfg.API.EncryptionFile == "" {
		switch _, err := os.Stat(p.cfg.file(sharedEncryption)); {
		case err == nil:
			p.cfg.API.EncryptionFile = p.cfg.file(sharedEncryption)
		case !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("look for the keys of what is stored: %w", err)
		}
	}
	return nil
}

// shared is what this server gives to one that joins.
func (p *ControlPlane) shared() (member.Shared, error) {
	s := alike{Repository: p.cfg.Repository, Name: p.cfg.Name}
	out := member.Shared{Files: map[string][]byte{}}
	from := map[string]string{}
	for _, f := range pki.Shared() {
		from["pki/"+f] = p.cfg.file("pki", f)
	}
	r := &s.Repository
	for _, f := range []struct {
		path *string
		as   string
	}{{&r.SSHKey, sharedSSHKey}, {&r.KnownHosts, sharedKnownHosts}, {&r.CA, sharedCA}} {
		if *f.path != "" {
			from[f.as], *f.path = *f.path, f.as
		}
	}
	if f := p.cfg.API.EncryptionFile; f != "" {
		from[sharedEncryption] = f
	}
	for as, path := range from {
		b, err := os.ReadFile(path)
		if err != nil {
			return member.Shared{}, fmt.Errorf("read what servers share: %w", err)
		}
		out.Files[as] = b
	}
	var err error
	out.Settings, err = json.Marshal(s)
	return out, err
}

// peerAddress is where the other servers reach this one.
func (p *ControlPlane) peerAddress() (string, error) {
	at := p.cfg.PeerAddress
	if at == "" {
		ip := p.cfg.hostAddress()
		if !ip.IsValid() || ip.IsLoopback() {
			return "", errors.New("this machine has no address that other servers reach: give one with --node-ip or --peer-address")
		}
		at = net.JoinHostPort(ip.String(), peerPort)
	}
	if host, _, err := net.SplitHostPort(at); err != nil || host == "" {
		return "", fmt.Errorf("--peer-address %q: must be HOST:PORT, as other servers reach this one", at)
	}
	return at, nil
}

func peerURL(at string) string { return (&url.URL{Scheme: "https", Host: at}).String() }

// storeMembers is what the store needs to be one of several; nil alone.
func (p *ControlPlane) storeMembers() (*store.Members, error) {
	if p.member == nil {
		return nil, nil //nolint:nilnil // alone is no mistake
	}
	at, err := p.peerAddress()
	if err != nil {
		return nil, err
	}
	if _, err := p.writePeer(at); err != nil {
		return nil, err
	}
	return &store.Members{Name: p.member.Name, Listen: at, URL: peerURL(at), Join: p.member.Peers,
		TLS: peerTLS(p.cfg.DataDir)}, nil
}

// peerTLS are the files by which the servers prove themselves to each other.
func peerTLS(dataDir string) store.PeerTLS {
	at := func(name string) string { return filepath.Join(dataDir, "pki", name) }
	return store.PeerTLS{CertFile: at("peer.crt"), KeyFile: at("peer.key"), CAFile: at("peer-ca.crt")}
}

// writePeer issues the certificate by which the other servers know this one. The
// store reads it again for each connection.
func (p *ControlPlane) writePeer(at string) (renew time.Time, err error) {
	host, _, err := net.SplitHostPort(at)
	if err != nil {
		return renew, err
	}
	pair, err := p.peers.IssuePeer(pki.Serving{Name: p.member.Name, Hosts: []string{host}})
	if err != nil {
		return renew, err
	}
	// Connections that are made between the two writes fail, and are made again.
	return pair.RenewAt(), errors.Join(durable.WriteFile(p.cfg.file("pki", "peer.key"), pair.KeyPEM, 0o600),
		durable.WriteFile(p.cfg.file("pki", "peer.crt"), pair.CertPEM, 0o600))
}

// keepPeer renews that certificate until ctx ends.
func (p *ControlPlane) keepPeer(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pki.Standing / 2):
		}
		at, err := p.peerAddress()
		if err == nil {
			_, err = p.writePeer(at)
		}
		if err != nil {
			p.log("members").Error("certificate for the other servers not renewed", "err", err)
		}
	}
}

// beginMembers makes a server that is alone the first of several. It has to
// start again for that.
func (p *ControlPlane) beginMembers() error {
	if p.member != nil {
		return nil
	}
	if _, err := p.peerAddress(); err != nil {
		return err
	}
	if p.told() == "" {
		return fmt.Errorf("other machines do not reach this server at %s: start it with --listen 0.0.0.0:%d", p.cfg.Listen, p.cfg.port())
	}
	if _, err := pki.OpenPeers(pki.Config{Dir: p.cfg.file("pki")}); err != nil {
		return err
	}
	if err := (&member.State{Name: p.cfg.NodeName}).Write(p.cfg.DataDir); err != nil {
		return err
	}
	p.log("members").Info("a server joins: this one starts again, as the first of several")
	p.startAgain()
	return member.ErrBecoming
}

// told is host:port of the API server for others; "" when they do not reach it.
func (p *ControlPlane) told() string { return reachable(p.cfg.Listen, p.cfg.hostAddress()) }

// servers serves /servers.
func (p *ControlPlane) servers() []apiserver.Mount {
	p.keys = &ownKeys{p: p}
	h := &member.Host{Keys: p.keys, Encrypt: p.encryptServers, Begin: p.beginMembers, Shared: p.shared, Add: p.store.AddMember, List: p.listServers, Remove: p.removeServer, Reset: p.resetServers, Log: p.log("members"),
		Backup: func(ctx context.Context, w io.Writer) error {
			_, err := p.store.Backup(ctx, w)
			return err
		},
		Authorize: func(ctx context.Context, u user.Info, verb, path string) (bool, error) {
			d, _, err := p.authz.Authorize(ctx, authorizer.AttributesRecord{User: u, Verb: verb, Path: path})
			return d == authorizer.DecisionAllow, err
		}}
	return []apiserver.Mount{{Prefix: member.Path, Handler: h, Audited: true}}
}

func (p *ControlPlane) listServers(ctx context.Context) ([]member.Server, error) {
	all, err := p.store.Members(ctx)
	if err != nil {
		return nil, err
	}
	if p.member == nil { // its name in the store is no name of a machine
		return []member.Server{{Member: store.Member{ID: all[0].ID, Name: p.cfg.NodeName, Leader: true, Self: true}, Address: p.told(), Ready: true}}, nil
	}
	if err := p.store.Current(ctx); err != nil {
		return nil, err
	}
	there := p.roll.Presences()
	out := make([]member.Server, len(all))
	for i, m := range all {
		out[i] = member.Server{Member: m}
		if at, ok := there[m.Name]; ok {
			out[i].Address, out[i].Ready = at.Address.String(), at.Live
		}
	}
	slices.SortFunc(out, func(a, b member.Server) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

func (p *ControlPlane) removeServer(ctx context.Context, name string) error {
	all, err := p.store.Members(ctx)
	if err != nil {
		return err
	}
	for _, m := range all {
		if m.Name == name || m.ID.String() == name {
			if len(all) == 1 {
				return fmt.Errorf("%s is the only server of the cluster", name)
			}
			if m.Self { // the answer would end with this process
				return p.removedByOther(ctx, m.ID.String())
			}
			return p.roll.Remove(ctx, m)
		}
	}
	return fmt.Errorf("there is no server %q", name)
}

// removedByOther has another server that is there remove this one.
func (p *ControlPlane) removedByOther(ctx context.Context, id string) error {
	err := errors.New("no other server answers: a server does not remove itself")
	for name, at := range p.roll.Presences() {
		if name == p.member.Name || !at.Live {
			continue
		}
		c := member.Client{HTTP: &http.Client{Transport: p.asServer}, Server: "https://" + at.Address.String()}
		if err = c.Remove(ctx, id); err == nil {
			return nil
		}
	}
	return err
}

// advertised is where pods reach the API server of this machine: the machine's
// address when it is one of several or listens there, else the gateway of the
// first node's pods.
func (p *ControlPlane) advertised() netip.AddrPort {
	ip := p.cfg.firstGateway()
	host, _, err := net.SplitHostPort(p.cfg.Listen)
	if a, perr := netip.ParseAddr(host); err == nil && perr == nil && !a.IsLoopback() && !a.IsUnspecified() {
		ip = a
	} else if a := p.cfg.hostAddress(); p.member != nil && a.IsValid() {
		ip = a
	}
	return netip.AddrPortFrom(ip, p.cfg.port())
}
