//go:build image

package image

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/writ-os/writ/cmd/writ/imagecmd"
	"github.com/writ-os/writ/image/bundle"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// The machines of TestJoin, on one link.
const (
	addressOne, addressTwo = "10.0.2.15", "10.0.2.16"
	agentToken             = "abcdef.0123456789abcdef"
)

// TestJoin is a cluster of two machines whose files were written before either
// had started: a server that begins with the authority it is given, and an agent
// that knows it by that. What runs on the one talks to what runs on the other.
func TestJoin(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts two machines")
	}
	emulator(t)
	uefi := firmware(t)
	repo := newRepository(t)
	v := newParts(t).build(t, "1.0.0", bundle.Quick)
	for name, content := range guestbook(t) {
		at := "two"
		if strings.HasPrefix(name, "store") {
			at = "one"
		}
		pod := "      containers:\n"
		repo.write(name, strings.Replace(content, pod, "      nodeSelector: {kubernetes.io/hostname: "+at+"}\n"+pod, 1))
	}
	first := repo.publish("Begin with the guestbook, on two machines")

	link, one, two := freePort(t), v.disk(t), v.disk(t)
	kubeconfig := filepath.Join(t.TempDir(), "admin.kubeconfig")
	node := writeNode(t, fmt.Sprintf("role: server\nnodeName: one\nrepository: {url: %q}\ntoken: %s\n", repo.url+"/git/cluster.git", agentToken)+static(addressOne))
	begun, found, err := imagecmd.ConfigureFirst(one, node, imagecmd.Access{Kubeconfig: kubeconfig, Server: "https://" + addressOne + ":6443"})
	if err != nil || len(found) > 0 {
		t.Fatalf("%v, %v", found, err)
	}
	configure(t, two, fmt.Sprintf("role: agent\nnodeName: two\nserver: https://%s:6443\ntoken: %s\ncaHashes: [%q]\n", addressOne, agentToken, begun.CAHash)+static(addressTwo))

	g := startOn(t, one, hub(link), uefi...)
	g.login(kubeconfig)
	startOn(t, two, func(*guest) []string {
		return []string{"-netdev", fmt.Sprintf("socket,id=n0,connect=127.0.0.1:%d", link), "-device", "virtio-net-pci,netdev=n0,mac=52:54:00:00:00:02"}
	}, uefi...)
	g.ready(15*time.Minute, "one")
	g.ready(15*time.Minute, "two")
	g.commit(10*time.Minute, first, v1alpha1.CommitHealthy)
	g.answers()
	g.sign("a pod of the one node to a pod of the other")
	g.memory("one")
	g.memory("two")
}

// hub is the link of both machines, with the host behind it.
func hub(link int) func(g *guest) []string {
	return func(g *guest) []string {
		return []string{
			"-netdev", g.nat("host"), "-netdev", "hubport,hubid=0,id=h0,netdev=host",
			"-netdev", fmt.Sprintf("socket,id=link,listen=127.0.0.1:%d", link), "-netdev", "hubport,hubid=0,id=h1,netdev=link",
			"-netdev", "hubport,hubid=0,id=h2", "-device", "virtio-net-pci,netdev=h2,mac=52:54:00:00:00:01",
		}
	}
}

func static(address string) string {
	return fmt.Sprintf("network: {interfaces: [{match: {name: \"en*\"}, addresses: [%s/24], gateway: %s}]}\n", address, host)
}

// login reads the API as the kubeconfig says, and believes in its authority
// alone.
func (g *guest) login(kubeconfig string) {
	g.t.Helper()
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		g.t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(c.CertData, c.KeyData)
	if err != nil {
		g.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(c.CAData) {
		g.t.Fatal("the kubeconfig has no authority")
	}
	g.http.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}}
}

// sign writes into the guestbook, and finds it there.
func (g *guest) sign(text string) {
	g.t.Helper()
	at := fmt.Sprintf("http://127.0.0.1:%d/", g.web)
	g.eventually(time.Minute, "the guestbook is signed", func() error {
		res, err := g.http.PostForm(at, url.Values{"name": {"Jane"}, "text": {text}})
		if err != nil {
			return err
		}
		defer res.Body.Close()
		b, err := g.read(at)
		if err == nil && !bytes.Contains(b, []byte(text)) {
			err = fmt.Errorf("it says %.2000s", b)
		}
		return err
	})
}
