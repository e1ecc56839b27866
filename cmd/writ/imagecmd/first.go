package imagecmd

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/auth/pki"
	"github.com/writ-os/writ/image/config"
	"github.com/writ-os/writ/nodeagent/join"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Access is how people are to reach a cluster that has not begun.
type Access struct {
	// Kubeconfig is the file to write, which must not be there.
	Kubeconfig string
	// Server is the URL of the first server; "" is what its node.yaml says.
	Server string
}

// First is what became of a first server.
type First struct {
	Node config.Node `json:"-"`
	// Server is the URL in the kubeconfig, CAHash what vouches for the authority
	// to machines that join.
	Server string `json:"server"`
	CAHash string `json:"caHash"`
	// Made says that the authority was made, and not in node.yaml.
	Made bool `json:"made"`
	// Until is how long the kubeconfig is good for.
	Until time.Time `json:"until"`
}

// ConfigureFirst writes a first server's node.yaml into a disk, with the
// authority of the cluster, and a kubeconfig of that authority for people. With
// findings nothing is written. The kubeconfig comes first, and goes again when
// the disk cannot be written: a disk whose key nobody has is of no use.
func ConfigureFirst(image, node string, want Access) (First, []v1alpha1.Finding, error) {
	data, n, findings, err := readNode(node, time.Now())
	out := First{Node: n}
	if err != nil || len(findings) > 0 {
		return out, findings, err
	}
	if !n.First() {
		return out, nil, fmt.Errorf("--kubeconfig is for the first server of a cluster, which begins it: %s is that of a machine that joins", node)
	}
	if out.Server, err = serverURL(want.Server, n); err != nil {
		return out, nil, err
	}
	ca, data, err := withAuthority(data, n)
	if err != nil {
		return out, nil, fmt.Errorf("%s: %w", node, err)
	}
	out.Made, out.CAHash = n.Authority == nil, join.Hash(ca.CA())
	d, err := openDisk(image)
	if err != nil {
		return out, nil, err
	}
	out.Until, err = writeKubeconfig(ca, want.Kubeconfig, out.Server)
	if err == nil {
		if err = d.put(data, n); err != nil {
			err = errors.Join(err, os.Remove(want.Kubeconfig))
		}
	}
	return out, nil, errors.Join(err, d.close())
}

// withAuthority returns the authority that the cluster begins with, and the file
// with it.
func withAuthority(data []byte, n config.Node) (*pki.Authority, []byte, error) {
	if a := n.Authority; a != nil {
		ca, err := pki.Parse([]byte(a.Certificate), []byte(a.Key), nil)
		return ca, data, err
	}
	ca, err := pki.Make(nil)
	if err != nil {
		return nil, nil, err
	}
	key, err := ca.KeyPEM()
	if err != nil {
		return nil, nil, err
	}
	data, err = config.WithAuthority(data, config.Authority{Certificate: string(ca.CAPEM()), Key: string(key)})
	return ca, data, err
}

// serverURL is where people will reach the server.
func serverURL(given string, n config.Node) (string, error) {
	if given == "" {
		if s := n.URL(); s != "" {
			return s, nil
		}
		return "", errors.New("nothing in the file says where people reach the server: give its address with --server https://ADDRESS:6443, or write externalURL, nodeIP or an address of network into it")
	}
	u, err := url.Parse(given)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("--server %q: must be a URL such as https://192.0.2.7:6443", given)
	}
	return given, nil
}

// writeKubeconfig writes an administrator's, for as long as a certificate is
// good. No file is replaced.
func writeKubeconfig(ca *pki.Authority, path, server string) (until time.Time, err error) {
	pair, err := ca.IssueClient(pki.Client{User: identity.Admin, Groups: []string{user.SystemPrivilegedGroup}, TTL: pki.Standing})
	if err != nil {
		return until, err
	}
	data, err := ca.Kubeconfig(server, identity.Admin, pair)
	if err != nil {
		return until, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return until, fmt.Errorf("--kubeconfig %s is there already: it may be that of another cluster; move it away, or name another file", path)
	}
	if err != nil {
		return until, fmt.Errorf("write --kubeconfig: %w", err)
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return until, fmt.Errorf("write --kubeconfig: %w", errors.Join(err, os.Remove(path)))
	}
	return pair.Leaf.NotAfter, nil
}
