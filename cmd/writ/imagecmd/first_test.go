package imagecmd

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/auth/pki"
	"github.com/writ-os/writ/image/config"
	"github.com/writ-os/writ/image/esp"
	"github.com/writ-os/writ/nodeagent/join"
)

// written is the node.yaml on a disk.
func written(t *testing.T, path string) string {
	t.Helper()
	d, err := openDisk(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	b, err := esp.Get(d.file, d.offset, d.length, config.ESPPath)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

const first = "# ours\nrole: server\nnodeName: one\ntoken: abcdef.0123456789abcdef\nnetwork:\n  interfaces:\n    - match: {name: \"en*\"}\n      addresses: [192.0.2.7/24]\n"

// TestConfigureFirst makes the authority once, and a kubeconfig of it; another
// kubeconfig of an authority that is given.
func TestConfigureFirst(t *testing.T) {
	path, file := newDisk(t), filepath.Join(t.TempDir(), "admin.kubeconfig")
	got, findings, err := ConfigureFirst(path, write(t, "node.yaml", []byte(first)), Access{Kubeconfig: file})
	if err != nil || len(findings) > 0 {
		t.Fatal(findings, err)
	}
	whole := written(t, path)
	n, findings := config.Parse("n", []byte(whole))
	if !strings.HasPrefix(whole, first) || len(findings) > 0 || n.Authority == nil {
		t.Fatalf("%v\n%s", findings, whole)
	}
	ca, err := pki.Parse([]byte(n.Authority.Certificate), []byte(n.Authority.Key), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.Server != "https://192.0.2.7:6443" || !got.Made || got.CAHash != join.Hash(ca.CA()) || time.Until(got.Until) < 364*24*time.Hour {
		t.Errorf("%+v", got)
	}
	check := func(file, server string) {
		t.Helper()
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
		c, err := clientcmd.LoadFromFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if cl := c.Clusters["writ"]; cl.Server != server || string(cl.CertificateAuthorityData) != string(ca.CAPEM()) {
			t.Errorf("%+v", cl)
		}
		block, _ := pem.Decode(c.AuthInfos[identity.Admin].ClientCertificateData)
		leaf, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: ca.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil || leaf.Subject.Organization[0] != "system:masters" {
			t.Errorf("%v, %v", leaf.Subject, err)
		}
	}
	check(file, "https://192.0.2.7:6443")

	other, given := newDisk(t), filepath.Join(t.TempDir(), "other.kubeconfig")
	again, findings, err := ConfigureFirst(other, write(t, "node.yaml", []byte(whole)), Access{Kubeconfig: given, Server: "https://writ.example.com"})
	if err != nil || len(findings) > 0 || again.Made || again.CAHash != got.CAHash || written(t, other) != whole {
		t.Errorf("%+v, %v, %v", again, findings, err)
	}
	check(given, "https://writ.example.com")
	if _, _, err := Configure(path, write(t, "node.yaml", []byte(first))); err == nil || !strings.Contains(err.Error(), "make both anew with --kubeconfig") || written(t, path) != whole {
		t.Errorf("the kubeconfig would be of no use: %v", err)
	}
}

// TestConfigureFirstRefuses writes neither disk nor kubeconfig.
func TestConfigureFirstRefuses(t *testing.T) {
	path, dir := newDisk(t), t.TempDir()
	file := filepath.Join(dir, "admin.kubeconfig")
	there := write(t, "there.kubeconfig", []byte("of another cluster"))
	const further = "role: server\nserver: https://192.0.2.7:6443\ntoken: abcdef.0123456789abcdef\ncaHashes: [sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef]\n"
	for name, c := range map[string]struct {
		disk, node string
		access     Access
		want       string
	}{
		"a machine that joins": {path, further, Access{Kubeconfig: file}, "is that of a machine that joins"},
		"an agent":             {path, "role: agent\nserver: https://192.0.2.7:6443\ntoken: abcdef.0123456789abcdef\n", Access{Kubeconfig: file}, "is that of a machine that joins"},
		"no address":           {path, node, Access{Kubeconfig: file}, "--server https://ADDRESS:6443"},
		"no URL":               {path, node, Access{Kubeconfig: file, Server: "192.0.2.7"}, "must be a URL such as"},
		"no TLS":               {path, node, Access{Kubeconfig: file, Server: "http://192.0.2.7"}, "must be a URL such as"},
		"there already":        {path, first, Access{Kubeconfig: there}, "is there already"},
		"no folder":            {path, first, Access{Kubeconfig: filepath.Join(dir, "a", "b")}, "write --kubeconfig"},
		"no disk":              {write(t, "x", []byte("x")), first, Access{Kubeconfig: file}, "neither a disk image"},
		"braces":               {path, "{role: server, nodeIP: 192.0.2.7}", Access{Kubeconfig: file}, "without braces"},
	} {
		_, findings, err := ConfigureFirst(c.disk, write(t, "node.yaml", []byte(c.node)), c.access)
		if err == nil || len(findings) > 0 || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v", name, findings, err)
		}
		if _, err := os.Stat(file); err == nil {
			t.Fatalf("%s: a kubeconfig was written", name)
		}
		if r, err := Inspect(path); err != nil || *r.Configured {
			t.Fatalf("%s: the disk was written: %v", name, err)
		}
	}
	if b, err := os.ReadFile(there); err != nil || string(b) != "of another cluster" {
		t.Errorf("%q, %v", b, err)
	}
}
