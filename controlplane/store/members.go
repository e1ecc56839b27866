package store

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/client/pkg/v3/types"
)

// Members makes a store one member of a cluster of etcd: several servers, each
// with its own copy. Without it a store is alone and listens to nobody.
//
// What Initial and Join say matters until the directory holds data. A store that
// was alone becomes the first member of a cluster by a restart with Members.
type Members struct {
	// Name of this member. No two may have the same.
	Name string
	// Listen is the address, host:port, on which the other members are heard.
	Listen string
	// URL is how the others reach Listen: https://host:port.
	URL string
	// TLS proves the members to each other.
	TLS PeerTLS
	// Join are the URLs of members of the cluster, to which AddMember of one of
	// them has added URL before.
	Join []string
	// Initial are the members, name to URL, of a cluster that begins with
	// several at once; each is started with the same. Default: with this one.
	Initial map[string]string

	// In tests: the address that connections to others come from, and how many
	// entries of the log are kept for members that are behind.
	dialFrom string
	keepLog  uint64
	// unchecked starts with whatever lies there.
	unchecked bool
}

// PeerTLS are files, PEM. The certificate is for server and client
// authentication and names the host of the member's URL (an IP address or a DNS
// name). Whoever has a certificate of the authority may read and write all
// data: it signs members and nothing else. Certificate and key are read again
// for every connection, the authority at the start.
type PeerTLS struct{ CertFile, KeyFile, CAFile string }

// ErrRemoved ends the store of a server that is no longer a member. Its data is
// of no more use: remove it before the server joins again.
var ErrRemoved = errors.New("this server was removed from the cluster")

// info is what etcd's transport wants to know. The address that a connection
// comes from proves nothing that the certificate does not, and is not always
// the one that the member is reached at.
func (m *Members) info() transport.TLSInfo {
	return transport.TLSInfo{
		CertFile: m.TLS.CertFile, KeyFile: m.TLS.KeyFile, TrustedCAFile: m.TLS.CAFile,
		ClientCertAuth: true, SkipClientSANVerify: true, MinVersion: tls.VersionTLS13, LocalAddr: m.dialFrom,
	}
}

// check finds what cannot work.
func (m *Members) check() error {
	if m.Name == "" {
		return fmt.Errorf("the member has no name")
	}
	if _, _, err := net.SplitHostPort(m.Listen); err != nil {
		return fmt.Errorf("address of member %s: %w", m.Name, err)
	}
	if m.TLS.CertFile == "" || m.TLS.KeyFile == "" || m.TLS.CAFile == "" {
		return fmt.Errorf("member %s needs a certificate, its key and the authority of its peers", m.Name)
	}
	if err := checkPeerURL(m.URL); err != nil {
		return err
	}
	if len(m.Initial) > 0 && m.Initial[m.Name] != m.URL {
		return fmt.Errorf("the initial members do not have %s at %s", m.Name, m.URL)
	}
	if len(m.Initial) > 0 && len(m.Join) > 0 {
		return fmt.Errorf("member %s is to begin a cluster and to join one", m.Name)
	}
	for name, u := range m.Initial {
		if err := checkPeerURL(u); err != nil {
			return fmt.Errorf("member %s: %w", name, err)
		}
	}
	for _, u := range m.Join {
		if err := checkPeerURL(u); err != nil {
			return err
		}
	}
	return nil
}

// checkPeerURL demands https://host:port, as etcd compares them letter by letter.
func checkPeerURL(s string) error {
	u, err := url.Parse(s)
	if err != nil {
		return fmt.Errorf("URL of a member: %w", err)
	}
	if u.Scheme != "https" || u.Hostname() == "" || u.Port() == "" || s != "https://"+u.Host {
		return fmt.Errorf("%q is not the URL of a member: it has the form https://host:port", s)
	}
	if _, err := types.NewURLs([]string{s}); err != nil {
		return fmt.Errorf("URL of a member: %w", err)
	}
	return nil
}

// MemberID is the name that etcd gives to a member. One that is added again
// gets another.
type MemberID uint64

// String is the hexadecimal form, as etcd's tools have it.
func (id MemberID) String() string { return strconv.FormatUint(uint64(id), 16) }

// MarshalText implements encoding.TextMarshaler: numbers in JSON are too small.
func (id MemberID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *MemberID) UnmarshalText(b []byte) error {
	n, err := strconv.ParseUint(string(b), 16, 64)
	if err != nil {
		return fmt.Errorf("%q is not the ID of a member", b)
	}
	*id = MemberID(n)
	return nil
}

// Member is one member of the cluster, as this one knows it.
type Member struct {
	ID MemberID `json:"id"`
	// Name is empty until the member has started for the first time.
	Name string `json:"name"`
	URL  string `json:"url"`
	// Learner says that it follows and has no vote yet.
	Learner bool `json:"learner,omitempty"`
	Leader  bool `json:"leader,omitempty"`
	Self    bool `json:"self,omitempty"`
}
