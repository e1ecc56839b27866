package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/writ-os/writ/nodeagent/cgroup"
	"github.com/writ-os/writ/nodeagent/image"
	"github.com/writ-os/writ/nodeagent/runtime"
	"github.com/writ-os/writ/nodeagent/runtime/conformance"
	"github.com/writ-os/writ/nodeagent/runtime/containerd"
	"github.com/writ-os/writ/nodeagent/runtime/fake"
	"github.com/writ-os/writ/nodeagent/stats"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// A SPDY connection that was closed waits for its streams for a while.
		goleak.IgnoreTopFunction("github.com/moby/spdystream.(*Connection).shutdown"),
		// The client's: it looks up when its ticker ticks.
		goleak.IgnoreTopFunction("k8s.io/client-go/tools/remotecommand.(*heartbeat).start"))
}

// testNode is a server over TLS, with the pod shop/web: container c waits,
// container cat sends back its input, something echoes on port 18472.
type testNode struct {
	rest      *rest.Config
	streams   *counted
	halfClose bool
}

// counted counts the commands that run.
type counted struct {
	runtime.Runtime
	running atomic.Int64
}

func (c *counted) Exec(ctx context.Context, id string, e runtime.ExecSpec) (int, error) {
	c.running.Add(1)
	defer c.running.Add(-1)
	return c.Runtime.Exec(ctx, id, e)
}

// awaitIdle waits until no command runs.
func (n *testNode) awaitIdle(t *testing.T) {
	t.Helper()
	for range 1000 {
		if n.streams.running.Load() == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d commands go on without a client", n.streams.running.Load())
}

func (n *testNode) url(path string, q url.Values) *url.URL {
	return &url.URL{Scheme: "https", Host: strings.TrimPrefix(n.rest.Host, "https://"), Path: path, RawQuery: q.Encode()}
}

// each runs a test on the fake runtime and on the real one.
func each(t *testing.T, fn func(t *testing.T, n *testNode)) {
	t.Run("fake", func(t *testing.T) { fn(t, newFakeNode(t)) })
	t.Run("containerd", func(t *testing.T) { fn(t, newRealNode(t)) })
}

func newFakeNode(t *testing.T) *testNode {
	t.Helper()
	return newNode(t, fake.New(fake.Config{Exec: fake.Programs}), "/test")
}

func newRealNode(t *testing.T) *testNode {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root")
	}
	for _, bin := range []string{"containerd", "runc"} {
		if _, err := exec.LookPath(bin); err != nil {
			t.Skip(bin + " is not installed")
		}
	}
	run, err := os.MkdirTemp("/run", "writ-test-")
	if err != nil {
		t.Fatal(err)
	}
	cg, err := cgroup.New("")
	if err != nil {
		t.Fatal(err)
	}
	dir, group := t.TempDir(), "/"+filepath.Base(run)
	rt := containerd.New(containerd.Config{DataDir: dir, RunDir: run, OwnDaemon: true, Cgroups: cg})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- rt.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		stop, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := containerd.StopOwnDaemon(stop, dir); err != nil {
			t.Error(err)
		}
		if err := cg.Remove(group); err != nil {
			t.Error(err)
		}
		_ = os.RemoveAll(run)
	})
	select {
	case <-rt.Ready():
	case err := <-done:
		t.Fatal(err)
	}
	if _, err := image.ImportShipped(t.Context(), rt, conformance.Program(t)); err != nil {
		t.Fatal(err)
	}
	n := newNode(t, rt, group)
	n.halfClose = true
	return n
}

// newNode makes the pod and the server.
func newNode(t *testing.T, rt runtime.Runtime, group string) *testNode {
	t.Helper()
	pod := podWith()
	pod.UID = "uid-web"
	uid := string(pod.UID)
	if err := rt.EnsureSandbox(t.Context(), runtime.SandboxSpec{PodUID: uid, Namespace: "shop", Name: "web", Hostname: "web", CgroupParent: group}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.RemoveSandbox(context.Background(), uid); err != nil {
			t.Error(err)
		}
	})
	for name, command := range map[string][]string{"c": {"/writ", "pause"}, "cat": {"/writ", "cat"}, "echo": {"/writ", "echo", "18472"}} {
		id, err := rt.Create(t.Context(), runtime.Spec{
			PodUID: uid, PodNamespace: "shop", PodName: "web", Name: name, Image: image.Pause, Command: command, CgroupParent: group,
			Stdin: name == "cat", LogPath: filepath.Join(t.TempDir(), "0.log"),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := rt.Start(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := rt.Remove(context.Background(), id); err != nil {
				t.Error(err)
			}
		})
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: name, ContainerID: "containerd://" + id, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		})
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name})
	}
	n := &testNode{streams: &counted{Runtime: rt}}
	n.rest = serve(t, Config{Pods: one{pod: pod, dir: t.TempDir()}, Streams: n.streams,
		Measures: stats.New(stats.Config{NodeName: "n1", Containers: rt, Pods: func() []*corev1.Pod { return []*corev1.Pod{pod} }}),
		Checks:   []Check{{Name: "well", Check: func(context.Context) error { return nil }}},
		Config:   map[string]string{"kind": "KubeletConfiguration"},
	})
	return n
}

// serve runs a server, and says how a client that may ask reaches it.
func serve(t *testing.T, cfg Config) *rest.Config {
	t.Helper()
	ca, certs := certificates(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Listener, cfg.Log = l, slog.New(slog.DiscardHandler)
	cfg.TLS = &tls.Config{Certificates: []tls.Certificate{certs["server"]}, ClientCAs: ca}
	s := New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return &rest.Config{Host: "https://" + l.Addr().String(), TLSClientConfig: rest.TLSClientConfig{
		CAData:   pemOf("CERTIFICATE", certs["ca"].Certificate[0]),
		CertData: pemOf("CERTIFICATE", certs["client"].Certificate[0]), KeyData: keyOf(t, certs["client"]),
	}}
}

func pemOf(kind string, b []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}) }

func keyOf(t *testing.T, c tls.Certificate) []byte {
	t.Helper()
	b, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return pemOf("PRIVATE KEY", b)
}

// certificates makes a CA, and from it one for the server and one for a client
// that may ask.
func certificates(t *testing.T) (*x509.CertPool, map[string]tls.Certificate) {
	t.Helper()
	out := map[string]tls.Certificate{}
	var parent *x509.Certificate
	for i, name := range []string{"ca", "server", "client"} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		c := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 1)), Subject: pkix.Name{CommonName: name, Organization: []string{"system:masters"}},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
			IsCA: name == "ca", BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
			KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}
		signer := any(key)
		if parent == nil {
			parent = c
		} else {
			signer = out["ca"].PrivateKey
		}
		b, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = tls.Certificate{Certificate: [][]byte{b}, PrivateKey: key}
	}
	pool := x509.NewCertPool()
	ca, err := x509.ParseCertificate(out["ca"].Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(ca)
	return pool, out
}
