package adversary

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/writ-os/writ/ci/freeport"
	"github.com/writ-os/writ/cmd/writ/cluster"
	"github.com/writ-os/writ/controlplane/controllers/nodeipam"
)

// joinToken is what the first adversary has stolen.
const joinToken = "abcdef.0123456789abcdef"

// target is the cluster that is attacked.
type target struct {
	*testing.T
	addr  string // host:port of the API server
	port  int
	host  string // an address of this machine that is not loopback
	ca    []byte // what everybody may know
	admin *kubernetes.Clientset
	cfg   cluster.Config
	glass *actor // who breaks the glass
}

// start runs a whole control plane until the test ends. It listens on every
// address, as one does that others join.
func start(t *testing.T, with ...func(*cluster.Config)) *target {
	t.Helper()
	host := machine(t)
	number := freeport.Port(t)
	port := strconv.Itoa(number)
	log := slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "users.csv"), []byte(users), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := cluster.Config{DataDir: filepath.Join(dir, "data"), Listen: "0.0.0.0:" + port, NodeName: "server", NodeIP: netip.MustParseAddr(host),
		FirstToken: joinToken, Log: log}
	cfg.API.TokenFile = filepath.Join(dir, "users.csv")
	for _, f := range with {
		f(&cfg)
	}
	p := cluster.NewControlPlane(cfg)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-p.Ready():
	case err := <-done:
		done <- nil
		t.Fatal(err)
	}
	text, err := clientcmd.LoadFromFile(cfg.AdminKubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	admin, err := clientcmd.NewDefaultClientConfig(*text, nil).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	c := &target{T: t, addr: net.JoinHostPort(host, port), port: number, host: host, ca: admin.CAData, cfg: cfg}
	if c.admin, err = kubernetes.NewForConfig(admin); err != nil {
		t.Fatal(err)
	}
	return c
}

// machine is an address by which others reach this machine.
func machine(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil && !nodeipam.DefaultPodCIDR.Contains(netip.AddrFrom4([4]byte(n.IP.To4()))) {
			return n.IP.String()
		}
	}
	t.Skip("this machine has no address but loopback")
	return ""
}

// actor is whoever has a credential, and nothing else.
type actor struct {
	c    *target
	cfg  *rest.Config
	kube *kubernetes.Clientset
	http *http.Client
}

func (c *target) actor(cfg *rest.Config) *actor {
	c.Helper()
	cfg.Host, cfg.CAData, cfg.QPS = "https://"+c.addr, c.ca, -1
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		c.Fatal(err)
	}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		c.Fatal(err)
	}
	return &actor{c, cfg, kube, client}
}

// ask sends a request as it is.
func (a *actor) ask(method, path, body string) (code int, text string) {
	req, err := http.NewRequestWithContext(a.c.Context(), method, a.cfg.Host+path, strings.NewReader(body))
	if err != nil {
		a.c.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
		if method == http.MethodPatch {
			req.Header.Set("Content-Type", "application/merge-patch+json")
		}
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // what there is of it
	text = string(b)
	var status metav1.Status
	if json.Unmarshal(b, &status) == nil && status.Kind == "Status" {
		text = status.Message
	}
	return resp.StatusCode, resp.Status + ": " + text
}

// key is the key of a machine.
func key(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// request asks for a certificate, and waits until it is decided: nil is no.
func (a *actor) request(signer string, k *ecdsa.PrivateKey, of *x509.CertificateRequest, usage certificatesv1.KeyUsage, patience time.Duration) (certPEM []byte, why string) {
	a.c.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, of, k)
	if err != nil {
		a.c.Fatal(err)
	}
	csrs := a.kube.CertificatesV1().CertificateSigningRequests()
	csr, err := csrs.Create(a.c.Context(), &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{GenerateName: "adversary-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: signer, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, usage},
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})}}, metav1.CreateOptions{})
	if err != nil {
		return nil, err.Error()
	}
	for began := time.Now(); time.Since(began) < patience; time.Sleep(20 * time.Millisecond) {
		now, err := a.c.admin.CertificatesV1().CertificateSigningRequests().Get(a.c.Context(), csr.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err.Error()
		}
		if len(now.Status.Certificate) > 0 {
			return now.Status.Certificate, "signed"
		}
		for _, cond := range now.Status.Conditions {
			if cond.Type != certificatesv1.CertificateApproved {
				return nil, string(cond.Type) + ": " + cond.Message
			}
		}
	}
	return nil, "pending"
}

// pair is a certificate with its key.
func pair(t *testing.T, certPEM []byte, k *ecdsa.PrivateKey) (tls.Certificate, []byte) {
	t.Helper()
	der, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	p, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	return p, keyPEM
}
