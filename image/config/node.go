// Package config says who a machine is: the one file, node.yaml, that a node
// is told before it can read Git.
//
// It watches nothing. It owns the definition of that file (node.cue), which of
// several such files counts, what they become on the machine (the arguments of
// `writ server` and `writ agent`, the network, the name, the time servers), and
// how secrets leave the place they came in. It promises that a mistake is said
// with its file, line and column, before anything is changed, that no secret is
// in a message, and that a machine whose power goes away at any moment still
// knows who it is. The package machine beside it does what is decided here.
package config

// Role of a node in its cluster.
type Role string

// The roles.
const (
	Server Role = "server" // control plane, and a node
	Agent  Role = "agent"  // a node alone
)

// Node is the content of node.yaml; node.cue says what each field may be.
type Node struct {
	Generation int    `json:"generation,omitempty"`
	Role       Role   `json:"role"`
	NodeName   string `json:"nodeName,omitempty"`
	Hostname   string `json:"hostname,omitempty"`
	NodeIP     string `json:"nodeIP,omitempty"`

	Listen      string      `json:"listen,omitempty"`
	Repository  *Repository `json:"repository,omitempty"`
	ExternalURL string      `json:"externalURL,omitempty"`
	// Authority is what the cluster of a first server begins with.
	Authority *Authority `json:"authority,omitempty"`

	// Server is the one that a machine joins, of either role; "" on the first
	// server, where Token is one by which agents join.
	Server   string   `json:"server,omitempty"`
	Token    string   `json:"token,omitempty"`
	CAHashes []string `json:"caHashes,omitempty"`

	// Encryption asks for a /var that the TPM keeps the key of.
	Encryption *Encryption `json:"encryption,omitempty"`

	Network     *Network `json:"network,omitempty"`
	TimeServers []string `json:"timeServers,omitempty"`
	// ImageKeys are the SSH public keys whose signature an update of this
	// machine's image needs.
	ImageKeys []string `json:"imageKeys,omitempty"`
	// UnsignedImages has images taken without a signature, where there are no
	// ImageKeys.
	UnsignedImages bool `json:"unsignedImages,omitempty"`
}

// First says that the node begins a cluster.
func (n Node) First() bool { return n.Role == Server && n.Server == "" }

// Encryption is how /var is encrypted.
type Encryption struct {
	// RecoveryKey opens /var where the TPM does not. It is on the EFI system
	// partition until the first start has made /var, and after that for whoever
	// has to be let in again.
	RecoveryKey string `json:"recoveryKey,omitempty"`
}

// Authority is the CA of a cluster: a certificate and its key, in PEM form.
type Authority struct {
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
}

// Repository is the one that a server follows. Keys are the text itself: there
// is no other file that a path could name.
type Repository struct {
	URL         string `json:"url"`
	Branch      string `json:"branch,omitempty"`
	Path        string `json:"path,omitempty"`
	Username    string `json:"username,omitempty"`
	Password    string `json:"password,omitempty"`
	BearerToken string `json:"bearerToken,omitempty"`
	SSHKey      string `json:"sshKey,omitempty"`
	KnownHosts  string `json:"knownHosts,omitempty"`
	CA          string `json:"ca,omitempty"`
}

// Network is how the machine reaches others. Without one every Ethernet
// interface asks by DHCP.
type Network struct {
	Interfaces []Interface `json:"interfaces"`
}

// Interface is what the interfaces that match are given.
type Interface struct {
	Match     Match    `json:"match"`
	DHCP      *bool    `json:"dhcp,omitempty"` // default: without addresses
	Addresses []string `json:"addresses,omitempty"`
	Gateway   string   `json:"gateway,omitempty"`
	DNS       []string `json:"dns,omitempty"`
	Domains   []string `json:"domains,omitempty"`
	MTU       int      `json:"mtu,omitempty"`
}

// Match chooses interfaces: those of which everything given is true.
type Match struct {
	Name string `json:"name,omitempty"`
	MAC  string `json:"mac,omitempty"`
}

// MaxSize bounds a node.yaml, in bytes.
const MaxSize = 1 << 20

// Name is the file's name wherever it lies.
const Name = "node.yaml"

// secrets are the fields that no place keeps but /var, as paths.
var secrets = [][]string{{"token"}, {"encryption", "recoveryKey"}, {"authority", "key"}, {"repository", "password"}, {"repository", "bearerToken"}, {"repository", "sshKey"}}
