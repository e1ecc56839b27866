package containerd

import (
	"archive/tar"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/opencontainers/go-digest"
	specs "github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/nodeagent/image"
)

func TestMirrorHost(t *testing.T) {
	for in, want := range map[string]string{
		"https://mirror.example.com":              "https://mirror.example.com/v2",
		"https://mirror.example.com/":             "https://mirror.example.com/v2",
		"http://10.0.0.1:5000/v2":                 "http://10.0.0.1:5000/v2",
		"https://mirror.example.com/v2/docker.io": "https://mirror.example.com/v2/docker.io",
		"https://mirror.example.com/cache":        "https://mirror.example.com/cache/v2",
		"https://mirror.example.com/v2s":          "https://mirror.example.com/v2s/v2",
		"mirror.example.com":                      `read URL of mirror "mirror.example.com": want https://host or http://host`,
		"ftp://u:p@mirror":                        `read URL of mirror "ftp://u:xxxxx@mirror": want https://host or http://host`,
	} {
		h, err := mirrorHost(in)
		got := h.Scheme + "://" + h.Host + h.Path
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// registry serves one image, and notes who asks for it.
type registry struct {
	*httptest.Server
	prefix string // of its API
	blobs  map[string][]byte
	kinds  map[string]string
	empty  bool   // has nothing
	secret string // the password that it wants

	mu    sync.Mutex
	asked []string
}

// newRegistry makes demo/app:v1, with one file.
func newRegistry(t *testing.T, prefix string) *registry { return newRegistryFor(t, prefix, nil) }

// newRegistryFor encrypts, and is for clients with a certificate of an authority.
func newRegistryFor(t *testing.T, prefix string, clients *x509.CertPool) *registry {
	g := &registry{prefix: prefix, blobs: map[string][]byte{}, kinds: map[string]string{}}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	if err := w.WriteHeader(&tar.Header{Name: "hello", Mode: 0o644, Size: 0, Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	put := func(kind string, b []byte) ocispec.Descriptor {
		d := ocispec.Descriptor{MediaType: kind, Digest: digest.FromBytes(b), Size: int64(len(b))}
		g.blobs[d.Digest.String()], g.kinds[d.Digest.String()] = b, kind
		return d
	}
	encode := func(v any) []byte {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	l := put(ocispec.MediaTypeImageLayer, layer.Bytes())
	c := put(ocispec.MediaTypeImageConfig, encode(ocispec.Image{
		Platform: ocispec.Platform{Architecture: "amd64", OS: "linux"}, RootFS: ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{l.Digest}},
	}))
	m := put(ocispec.MediaTypeImageManifest, encode(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: c, Layers: []ocispec.Descriptor{l},
	}))
	g.blobs["v1"], g.kinds["v1"] = g.blobs[m.Digest.String()], ocispec.MediaTypeImageManifest
	g.Server = httptest.NewUnstartedServer(g)
	if clients == nil {
		g.Start()
	} else {
		g.TLS = &tls.Config{ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}
		g.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that are refused
		g.StartTLS()
	}
	t.Cleanup(g.Close)
	return g
}

// ServeHTTP implements http.Handler.
func (g *registry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, password, _ := r.BasicAuth()
	rest, ok := strings.CutPrefix(r.URL.Path, g.prefix+"/demo/app/")
	_, name, _ := strings.Cut(rest, "/")
	g.mu.Lock()
	g.asked = append(g.asked, fmt.Sprintf("%s ns=%s password=%s", rest, r.URL.Query().Get("ns"), password))
	b, secret := g.blobs[name], g.secret
	g.mu.Unlock()
	switch {
	case secret != "" && password != secret:
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	case !ok, b == nil, g.empty:
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", g.kinds[name])
	w.Header().Set("Content-Length", fmt.Sprint(len(b)))
	w.Header().Set("Docker-Content-Digest", digest.FromBytes(b).String())
	_, _ = w.Write(b) // nobody reads it of a HEAD
}

func (g *registry) requests() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Join(g.asked, "\n")
}

// An image comes from the first mirror that has it, and from the registry when
// none does. No mirror gets to see the password.
func TestMirrors(t *testing.T) {
	n := newTestNode(t)
	away := httptest.NewServer(nil)
	away.Close()
	curious, empty, good := newRegistry(t, "/v2"), newRegistry(t, "/v2"), newRegistry(t, "/v2/project")
	curious.secret, empty.empty = "other", true
	itself := newRegistry(t, "/v2")
	itself.secret = "secret"
	host := strings.TrimPrefix(itself.URL, "http://")
	mirrors := []string{away.URL, "no URL", curious.URL, empty.URL, good.URL + "/v2/project"}
	n.mirrors = func(registry string) []string {
		if registry != host {
			t.Errorf("mirrors of %s", registry)
		}
		return mirrors
	}
	r, _ := n.start(t)
	creds := []image.Credentials{{Username: "u", Password: "secret"}}
	ref := host + "/demo/app:v1"
	img, err := r.Pull(t.Context(), ref, creds)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(img.ID, host+"/demo/app@sha256:") {
		t.Errorf("ID %s", img.ID)
	}
	if got := itself.requests(); got != "" {
		t.Errorf("the registry was asked too:\n%s", got)
	}
	if got := good.requests(); !strings.HasPrefix(got, "manifests/v1 ns="+host+" password=\n") || strings.Count(got, "blobs/") != 2 {
		t.Errorf("the mirror was asked\n%s", got)
	}
	if err := r.RemoveImage(t.Context(), img.ID); err != nil {
		t.Fatal(err)
	}
	mirrors = mirrors[:4]
	if img, err = r.Pull(t.Context(), ref, creds); err != nil {
		t.Fatal(err)
	}
	if got := itself.requests(); !strings.Contains(got, "manifests/v1 ns= password=secret") {
		t.Errorf("the registry was asked\n%s", got)
	}
	for _, g := range []*registry{curious, empty, good} {
		if strings.Contains(g.requests(), "secret") {
			t.Errorf("a mirror has seen the password:\n%s", g.requests())
		}
	}
	if err := r.RemoveImage(t.Context(), img.ID); err != nil {
		t.Fatal(err)
	}
}

// Without mirrors the registry alone is asked.
func TestNoMirrors(t *testing.T) {
	r := New(Config{Mirrors: func(string) []string { return nil }})
	hosts, err := r.hostsWith("docker.io/library/x:v1", image.Credentials{}, func(c *http.Client) *http.Client { return c })("docker.io")
	if err != nil || len(hosts) != 1 || hosts[0].Host != "registry-1.docker.io" || !hosts[0].Capabilities.Has(docker.HostCapabilityPull) {
		t.Errorf("%+v, %v", hosts, err)
	}
}

// A registry and a mirror with an authority of their own want a certificate and
// a password; both are changed while the runtime runs.
func TestEndpoints(t *testing.T) {
	n := newTestNode(t)
	clients, shown := clientCertificates(t)
	itself, mirror := newRegistryFor(t, "/v2", clients), newRegistryFor(t, "/v2/cache", clients)
	itself.secret, mirror.secret = "secret", "mirrored"
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: itself.Certificate().Raw}))
	host, mirrorHost := strings.TrimPrefix(itself.URL, "https://"), strings.TrimPrefix(mirror.URL, "https://")
	secret := func(more map[string]string) *corev1.Secret {
		s := &corev1.Secret{Data: maps.Clone(shown)}
		for k, v := range more {
			s.Data[k] = []byte(v)
		}
		return s
	}
	var mu sync.Mutex
	declared := map[string]*image.Endpoint{}
	declare := func(host, ca string, s *corev1.Secret) {
		t.Helper()
		e, err := image.NewEndpoint(host, ca, s)
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		declared[host] = e
	}
	n.endpoint = func(host string) *image.Endpoint {
		mu.Lock()
		defer mu.Unlock()
		return declared[host]
	}
	var mirrors []string
	n.mirrors = func(string) []string { return mirrors }
	r, _ := n.start(t)
	ref := host + "/demo/app:v1"
	pull := func(want string) {
		t.Helper()
		img, err := r.Pull(t.Context(), ref, nil)
		switch {
		case want == "" && err != nil:
			t.Fatal(err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%v, want %s", err, want)
		case err == nil:
			if err := r.RemoveImage(t.Context(), img.ID); err != nil {
				t.Fatal(err)
			}
		}
		if err != nil && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "mirrored")) {
			t.Errorf("the password is told: %v", err)
		}
	}
	pull("400 Bad Request") // as on this machine: without encryption
	declare(host, "", secret(nil))
	pull("certificate signed by unknown authority")
	declare(host, ca, nil)
	pull("certificate required")
	declare(host, ca, secret(nil))
	pull("no basic auth credentials")
	declare(host, ca, secret(map[string]string{"username": "u", "password": "old"}))
	pull("401 Unauthorized")
	declare(host, ca, secret(map[string]string{".dockerconfigjson": fmt.Sprintf(`{"auths":{%q:{"username":"u","password":"secret"}}}`, host)}))
	pull("")

	mirrors = []string{mirror.URL + "/v2/cache"}
	declare(mirrorHost, ca, secret(map[string]string{"username": "u", "password": "mirrored"}))
	before := itself.requests()
	pull("")
	if itself.requests() != before {
		t.Error("the registry was asked beside the mirror")
	}
	if got := mirror.requests(); !strings.Contains(got, "manifests/v1 ns="+host+" password=mirrored") || strings.Contains(got, "password=secret") {
		t.Errorf("the mirror was asked\n%s", got)
	}
	mirror.mu.Lock()
	mirror.secret = "rotated" //nolint:gosec // of a test
	mirror.mu.Unlock()
	declare(mirrorHost, ca, secret(map[string]string{"username": "u", "password": "rotated"}))
	before = itself.requests()
	pull("")
	if itself.requests() != before {
		t.Error("the registry was asked beside the mirror whose password was changed")
	}
	declare(mirrorHost, "", nil) // not believed: the registry has it
	pull("")
}

// clientCertificates are an authority, and what a Secret has of its certificate.
func clientCertificates(t *testing.T) (*x509.CertPool, map[string][]byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "node"}, NotAfter: time.Now().Add(time.Hour),
		BasicConstraintsValid: true, IsCA: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return pool, map[string][]byte{
		corev1.TLSCertKey:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
}
