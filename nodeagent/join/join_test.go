package join

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Upstream's managers do not hear that they are stopped while they wait for the
// day on which a certificate is renewed.
func TestMain(m *testing.M) {
	const manager = "k8s.io/client-go/util/certificate.(*manager).run"
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(manager), goleak.IgnoreAnyFunction(manager+".func1"),
		goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

const token = "abcdef.0123456789abcdef"

// cluster answers for cluster-info, by a certificate of its own authority.
type cluster struct {
	*httptest.Server
	ca   []byte // that it names
	hash string
	code int
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{code: http.StatusOK}
	c.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != infoPath {
			http.NotFound(w, r)
			return
		}
		cfg := clientcmdapi.NewConfig()
		cfg.Clusters[""] = &clientcmdapi.Cluster{Server: c.URL, CertificateAuthorityData: c.ca}
		text, err := clientcmd.Write(*cfg)
		if err != nil {
			t.Error(err)
		}
		w.WriteHeader(c.code)
		if err := json.NewEncoder(w).Encode(&corev1.ConfigMap{Data: map[string]string{"kubeconfig": string(text)}}); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(c.Close)
	c.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate().Raw})
	c.hash = Hash(c.Certificate())
	return c
}

// member of a cluster that believes whoever knows the token.
func (c *cluster) member(t *testing.T, change func(*Config)) *Member {
	cfg := Config{Server: c.URL, Token: token, NodeName: "one", Dir: t.TempDir(), WriteFile: os.WriteFile,
		Verify: func(info *corev1.ConfigMap, tok string) (string, error) {
			if tok != token {
				return "", errors.New("the signature does not fit")
			}
			return info.Data["kubeconfig"], nil
		}}
	if change != nil {
		change(&cfg)
	}
	return New(cfg)
}

func TestDiscover(t *testing.T) {
	c := newCluster(t)
	for _, tt := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"token alone", nil, ""},
		{"hash", func(cfg *Config) { cfg.CAHashes = []string{c.hash} }, ""},
		{"one of the hashes, in capitals", func(cfg *Config) {
			cfg.CAHashes = []string{"sha256:" + strings.Repeat("0", 64), "sha256:" + strings.ToUpper(c.hash[7:])}
		}, ""},
		{"another hash", func(cfg *Config) { cfg.CAHashes = []string{"sha256:" + strings.Repeat("0", 64)} }, "which --ca-hash does not name"},
		{"no hash", func(cfg *Config) { cfg.CAHashes = []string{"sha256:00"} }, "is not sha256: and 64 hexadecimal digits"},
		{"other digest", func(cfg *Config) { cfg.CAHashes = []string{"md5:" + strings.Repeat("0", 64)} }, "is not sha256:"},
		{"wrong token", func(cfg *Config) { cfg.Token = "abcdef.fedcba9876543210" }, "the signature does not fit"},
		{"no token", func(cfg *Config) { cfg.Token = "" }, "this machine is no member of a cluster"},
		{"no URL", func(cfg *Config) { cfg.Server = "192.0.2.1:6443" }, "is not a URL such as"},
		{"not TLS", func(cfg *Config) { cfg.Server = "http://192.0.2.1:6443" }, "is not a URL such as"},
	} {
		m := c.member(t, tt.change)
		err := m.believe(t.Context())
		if tt.want == "" {
			if ca, aerr := m.Authority(); err != nil || aerr != nil || string(ca) != string(c.ca) {
				t.Errorf("%s: the authority is not kept: %v", tt.name, err)
			}
			continue
		}
		var final *RefusedError
		if !errors.As(err, &final) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
	// One that stands between knows cluster-info, and has no key of the authority.
	c.ca = stranger(t)
	var final *RefusedError
	if err := c.member(t, nil).believe(t.Context()); !errors.As(err, &final) || !strings.Contains(err.Error(), "is not of it") {
		t.Errorf("somebody between: %v", err)
	}
}

// stranger is an authority that no server here has a certificate of.
func stranger(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	as := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, as, as, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestHash(t *testing.T) {
	c := newCluster(t)
	cert, err := x509.ParseCertificate(c.Certificate().Raw)
	if err != nil || Hash(cert) != c.hash || len(c.hash) != len("sha256:")+64 {
		t.Errorf("%s %v", c.hash, err)
	}
}
