package apiserver_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/writ-os/writ/controlplane/apiserver"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
		goleak.IgnoreTopFunction("gopkg.in/natefinch/lumberjack%2ev2.(*Logger).millRun")) // of the audit log; ends with the process
}

// cluster is a server over a real store and a real registry, reached by TLS.
type cluster struct {
	store *store.Store
	reg   *registry.Registry
	srv   *apiserver.Server
	live  *schema.Live
	addr  string
	ca    []byte
}

// tokens is an authenticator of bearer tokens that are user names: "alice" is
// alice, "admin" is in system:masters.
type tokens struct{}

func (tokens) Authenticate(r *http.Request) (user.Info, bool, error) {
	name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case !ok:
		return nil, false, nil
	case name == "bad":
		return nil, false, errors.New("token is bad")
	case name == "admin":
		return &user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}, true, nil
	}
	return &user.DefaultInfo{Name: name, Groups: []string{user.AllAuthenticated}}, true, nil
}

// masters allows everything to system:masters, and reading pods to "reader".
type masters struct{}

func (masters) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	for _, g := range a.GetUser().GetGroups() {
		if g == user.SystemPrivilegedGroup {
			return authorizer.DecisionAllow, "", nil
		}
	}
	if a.GetUser().GetName() == "reader" && a.GetResource() == "pods" && a.GetSubresource() == "" && (a.GetVerb() == "get" || a.GetVerb() == "list") {
		return authorizer.DecisionAllow, "", nil
	}
	if a.GetUser().GetName() == "node" && a.GetResource() == "pods" && a.GetVerb() == "list" {
		// As the Node authorizer does it.
		reqs, err := a.GetFieldSelector()
		for _, r := range reqs {
			if err == nil && r.Field == "spec.nodeName" && r.Value == "n1" {
				return authorizer.DecisionAllow, "", nil
			}
		}
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// newCluster starts a cluster that ends with the test. change may adapt the
// configuration.
func newCluster(t testing.TB, change ...func(*apiserver.Config)) *cluster {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("WRIT_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	st := store.New(store.Config{Dir: t.TempDir(), Log: log, Tick: 10 * time.Millisecond})
	live := &schema.Live{}
	reg := registry.New(registry.Config{Store: st, Catalog: live, Log: log})
	cert, ca := servingCertificate(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := apiserver.Config{
		Store: st, Catalog: live, Registry: reg, Authenticator: tokens{}, Authorizer: masters{}, Log: log,
		Listeners: []net.Listener{l}, TLS: &tls.Config{Certificates: []tls.Certificate{cert}}, Grace: 100 * time.Millisecond,
	}
	for _, fn := range change {
		fn(&cfg)
	}
	c := &cluster{store: st, reg: reg, srv: apiserver.New(cfg), live: live, addr: "https://" + l.Addr().String(), ca: ca}
	run(t, st.Run)
	run(t, c.srv.Run)
	<-st.Ready()
	c.namespace(t, "default")
	return c
}

// run starts a part that ends with the test.
func run(t testing.TB, fn func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- fn(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("run: %v", err)
		}
	})
}

func (c *cluster) namespace(t testing.TB, name string) {
	t.Helper()
	ctx := request.WithUser(t.Context(), &user.DefaultInfo{Name: "test", Groups: []string{user.SystemPrivilegedGroup}})
	ns := schema.ResourceFor[*corev1.Namespace]().New().(*corev1.Namespace)
	ns.Name = name
	if _, err := c.reg.Create(ctx, schema.ResourceFor[*corev1.Namespace](), ns, clientOptions); err != nil {
		t.Fatalf("create namespace %s: %v", name, err)
	}
}

// config is a client-go configuration for a user.
func (c *cluster) config(user string) *rest.Config {
	return &rest.Config{Host: c.addr, BearerToken: user, TLSClientConfig: rest.TLSClientConfig{CAData: c.ca}, QPS: -1}
}

func (c *cluster) clientset(t testing.TB, user string) *kubernetes.Clientset {
	t.Helper()
	cs, err := kubernetes.NewForConfig(c.config(user))
	if err != nil {
		t.Fatal(err)
	}
	return cs
}

// http returns a client for raw requests.
func (c *cluster) http(t testing.TB) *http.Client {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(c.ca)
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true, DisableCompression: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// reply is the answer to a raw request.
type reply struct {
	code   int
	header http.Header
	body   string
	proto  int
}

// do sends a raw request. headers are "Name: value".
func (c *cluster) do(t testing.TB, user, method, path, body string, headers ...string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, c.addr+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if user != "" {
		req.Header.Set("Authorization", "Bearer "+user)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := c.http(t).Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: read body: %v", method, path, err)
	}
	return reply{resp.StatusCode, resp.Header, string(data), resp.ProtoMajor}
}

func servingCertificate(t testing.TB) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pemOf(der)
}

// pod is a small valid pod.
func pod(name string) *corev1.Pod {
	grace := int64(30)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{Name: "c", Image: "writ.local/demo:v1"}}},
	}
}

func configMap(i int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("cm-%06d", i), Namespace: "default"},
		Data:       map[string]string{"key": strings.Repeat("v", 400)},
	}
}
