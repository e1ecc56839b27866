package pki

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/writ-os/writ/controlplane/durable"
)

// File is a credential on disk: whose it is, where it lies, who may read it.
type File struct {
	Path   string
	Mode   os.FileMode // default 0600
	Client Client
	// Server is the URL that the credential is for: "https://127.0.0.1:6443".
	Server string
	// Git writes, instead of a kubeconfig, a Git configuration to include, with
	// the certificate and key in files beside it.
	Git bool
}

// Write issues a certificate and writes the file. It returns the pair, which
// says when to write again.
func (a *Authority) Write(f File) (*KeyPair, error) {
	pair, err := a.IssueClient(f.Client)
	if err != nil {
		return nil, err
	}
	if f.Mode == 0 {
		f.Mode = 0o600
	}
	if f.Git {
		return pair, a.writeGit(f, pair)
	}
	data, err := a.Kubeconfig(f.Server, f.Client.User, pair)
	if err != nil {
		return nil, err
	}
	return pair, durable.WriteFile(f.Path, data, f.Mode)
}

// Kubeconfig returns a kubeconfig with everything it needs inside. It asks for
// the certificate of this authority, by the name that all its servers have: by
// its own name a server may have one for people, of a CA that is not in here,
// and an address may be that of a router before it. Loopback is always the
// server itself.
func (a *Authority) Kubeconfig(server, user string, pair *KeyPair) ([]byte, error) {
	cfg := clientcmdapi.NewConfig()
	cluster := &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: a.pem}
	if u, err := url.Parse(server); err == nil && !net.ParseIP(u.Hostname()).IsLoopback() {
		cluster.TLSServerName = "kubernetes"
	}
	cfg.Clusters["writ"] = cluster
	cfg.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: pair.CertPEM, ClientKeyData: pair.KeyPEM}
	cfg.Contexts["writ"] = &clientcmdapi.Context{Cluster: "writ", AuthInfo: user}
	cfg.CurrentContext = "writ"
	data, err := clientcmd.Write(*cfg)
	if err != nil {
		return nil, fmt.Errorf("encode kubeconfig of %s: %w", user, err)
	}
	return data, nil
}

// writeGit writes <path>, <path>.crt, <path>.key and <path>.ca: `git -c
// include.path=<path>` then pushes as the client. The key comes first and the
// configuration that names it last.
func (a *Authority) writeGit(f File, pair *KeyPair) error {
	path, err := filepath.Abs(f.Path)
	if err != nil {
		return fmt.Errorf("resolve %s: %w", f.Path, err)
	}
	config := fmt.Sprintf("[http %q]\n\tsslCAInfo = %q\n\tsslCert = %q\n\tsslKey = %q\n",
		f.Server+"/", path+".ca", path+".crt", path+".key")
	for _, part := range []struct {
		path string
		data []byte
		mode os.FileMode
	}{
		{path + ".key", pair.KeyPEM, f.Mode},
		{path + ".crt", pair.CertPEM, 0o644},
		{path + ".ca", a.pem, 0o644},
		{path, []byte(config), 0o644},
	} {
		if err := durable.WriteFile(part.path, part.data, part.mode); err != nil {
			return err
		}
	}
	return nil
}
