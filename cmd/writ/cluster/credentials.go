package cluster

import (
	"crypto/tls"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/auth/pki"
)

// credentials are the files that the server writes and keeps fresh.
func (c Config) credentials() []pki.File {
	server := c.server()
	return []pki.File{
		{Path: c.ViewerKubeconfig(), Server: server,
			Client: pki.Client{User: identity.Viewer, Groups: []string{identity.ViewersGroup}}},
		{Path: c.AdminKubeconfig(), Server: server,
			Client: pki.Client{User: identity.Admin, Groups: []string{user.SystemPrivilegedGroup}, TTL: pki.BreakGlass}},
		{Path: c.PusherGitConfig(), Server: server, Git: true,
			Client: pki.Client{User: identity.Pusher, Groups: []string{identity.PushersGroup, identity.ViewersGroup}}},
		{Path: c.NodeKubeconfig(), Server: server,
			Client: pki.Client{User: identity.NodeUser(c.NodeName), Groups: []string{user.NodesGroup}}},
	}
}

// nodeTLS is how the server calls node agents: by a certificate that opens them
// and nothing else.
func nodeTLS(a *pki.Authority) (*tls.Config, error) {
	pair, err := a.IssueClient(pki.Client{User: identity.KubeletClient, Groups: []string{identity.KubeletClientsGroup}})
	if err != nil {
		return nil, err
	}
	pool, err := a.NodePool()
	if err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: []tls.Certificate{pair.TLS()}}, nil
}
