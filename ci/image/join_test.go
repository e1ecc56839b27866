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

	"github.com/writ-os/writ/ci/freeport"
	"github.com/writ-os/writ/cmd/writ/imagecmd"
	"github.com/writ-os/writ/image/bundle"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// The machines of TestJoin, on one link.
const (
	addressOne, addressTwo  = "192.0.2.1", "192.0.2.2"
	macHost, macOne, macTwo = "52:54:00:00:00:10", "52:54:00:00:00:01", "52:54:00:00:00:02"
	agentToken              = "abcdef.0123456789abcdef"
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
	repo.write("readers.yaml", readers)
	repo.publish("Begin with nothing that runs")

	link, one, two := freeport.Port(t), v.disk(t), v.disk(t)
	kubeconfig := filepath.Join(t.TempDir(), "admin.kubeconfig")
	node := writeNode(t, fmt.Sprintf("role: server\nunsignedImages: true\nnodeName: one\nnodeIP: %s\nrepository: {url: %q}\ntoken: %s\n", addressOne, repo.url+"/git/cluster.git", agentToken)+
		network(fmt.Sprintf("match: {mac: %q}, dhcp: true", macHost), fmt.Sprintf("match: {mac: %q}, addresses: [%s/24]", macOne, addressOne)))
	begun, found, err := imagecmd.ConfigureFirst(one, node, imagecmd.Access{Kubeconfig: kubeconfig, Server: "https://" + addressOne + ":6443"})
	if err != nil || len(found) > 0 {
		t.Fatalf("%v, %v", found, err)
	}
	configure(t, two, fmt.Sprintf("role: agent\nunsignedImages: true\nnodeName: two\nnodeIP: %s\nserver: https://%s:6443\ntoken: %s\ncaHashes: [%q]\n", addressTwo, addressOne, agentToken, begun.CAHash)+
		network(fmt.Sprintf("match: {mac: %q}, addresses: [%s/24]", macTwo, addressTwo)))

	g := startOn(t, one, func(g *guest) []string {
		return append(nic("n0", g.nat("n0"), macHost), nic("n1", fmt.Sprintf("socket,id=n1,listen=127.0.0.1:%d", link), macOne)...)
	}, uefi...)
	g.login(kubeconfig)
	g.ready(10*time.Minute, "one")
	g.memory("one") // with nothing running
	startOn(t, two, func(*guest) []string {
		return nic("n0", fmt.Sprintf("socket,id=n0,connect=127.0.0.1:%d", link), macTwo)
	}, firmware(t)...)
	g.ready(10*time.Minute, "two")
	g.memory("two") // with nothing running

	for name, content := range guestbook(t) {
		at := "two"
		if strings.HasPrefix(name, "store") {
			at = "one"
		}
		pod := "      containers:\n"
		repo.write(name, strings.Replace(content, pod, "      nodeSelector: {kubernetes.io/hostname: "+at+"}\n"+pod, 1))
	}
	g.commit(10*time.Minute, repo.publish("The guestbook, on two machines"), v1alpha1.CommitHealthy)
	g.answers()
	g.sign("a pod of the one node to a pod of the other")
	g.memory("one")
	g.memory("two")
}

// nic is a network card on a network of the host.
func nic(id, network, mac string) []string {
	return []string{"-netdev", network, "-device", "virtio-net-pci,netdev=" + id + ",mac=" + mac}
}

func network(interfaces ...string) string {
	return "network:\n  interfaces:\n  - {" + strings.Join(interfaces, "}\n  - {") + "}\n"
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
