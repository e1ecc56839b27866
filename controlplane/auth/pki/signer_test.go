package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
)

const (
	digital  = certificatesv1.UsageDigitalSignature
	encipher = certificatesv1.UsageKeyEncipherment
	asClient = certificatesv1.UsageClientAuth
	asServer = certificatesv1.UsageServerAuth
)

var nodeName = pkix.Name{CommonName: "system:node:a", Organization: []string{"system:nodes"}}

func certificateRequest(t testing.TB, tmpl *x509.CertificateRequest) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, tmpl, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func TestAdmits(t *testing.T) {
	uri := []*url.URL{{Scheme: "spiffe", Host: "x"}}
	ip := []net.IP{net.IPv4(10, 0, 0, 1)}
	for _, tt := range []struct {
		signer string
		req    x509.CertificateRequest
		usages []certificatesv1.KeyUsage
		want   string // "" is admitted
	}{
		{SignerClient, x509.CertificateRequest{}, []certificatesv1.KeyUsage{asClient}, ""},
		{SignerClient, x509.CertificateRequest{}, []certificatesv1.KeyUsage{asClient, digital, encipher}, ""},
		{SignerClient, x509.CertificateRequest{}, []certificatesv1.KeyUsage{digital}, "missing required usage for client certificate: client auth"},
		{SignerClient, x509.CertificateRequest{}, []certificatesv1.KeyUsage{asClient, asServer}, "invalid usage for client certificate: server auth"},

		{SignerKubeletClient, x509.CertificateRequest{Subject: nodeName}, []certificatesv1.KeyUsage{asClient, digital, encipher}, ""},
		{SignerKubeletClient, x509.CertificateRequest{Subject: nodeName}, []certificatesv1.KeyUsage{digital, asClient}, ""},
		{SignerKubeletClient, x509.CertificateRequest{Subject: nodeName}, []certificatesv1.KeyUsage{asClient}, "usages did not match [client auth digital signature key encipherment]"},
		{SignerKubeletClient, x509.CertificateRequest{Subject: nodeName}, []certificatesv1.KeyUsage{asServer, digital}, "usages did not match"},
		{SignerKubeletClient, x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:a", Organization: []string{"system:nodes", "system:masters"}}}, nil, "subject organization is not system:nodes"},
		{SignerKubeletClient, x509.CertificateRequest{Subject: pkix.Name{CommonName: "root", Organization: []string{"system:nodes"}}}, nil, "subject common name does not begin with system:node:"},
		{SignerKubeletClient, x509.CertificateRequest{Subject: nodeName, DNSNames: []string{"a"}}, nil, "DNS subjectAltNames are not allowed"},
		{SignerKubeletClient, x509.CertificateRequest{Subject: nodeName, EmailAddresses: []string{"a"}}, nil, "Email subjectAltNames are not allowed"},
		{SignerKubeletClient, x509.CertificateRequest{Subject: nodeName, IPAddresses: ip}, nil, "IP subjectAltNames are not allowed"},
		{SignerKubeletClient, x509.CertificateRequest{Subject: nodeName, URIs: uri}, nil, "URI subjectAltNames are not allowed"},

		{SignerKubelet, x509.CertificateRequest{Subject: nodeName, IPAddresses: ip}, []certificatesv1.KeyUsage{asServer, digital, encipher}, ""},
		{SignerKubelet, x509.CertificateRequest{Subject: nodeName, DNSNames: []string{"a"}}, []certificatesv1.KeyUsage{asServer, digital}, ""},
		{SignerKubelet, x509.CertificateRequest{Subject: nodeName}, []certificatesv1.KeyUsage{asServer, digital}, "DNS or IP subjectAltName is required"},
		{SignerKubelet, x509.CertificateRequest{Subject: nodeName, DNSNames: []string{"a"}, URIs: uri}, nil, "URI subjectAltNames are not allowed"},
		{SignerKubelet, x509.CertificateRequest{Subject: nodeName, DNSNames: []string{"a"}}, []certificatesv1.KeyUsage{asServer, digital, asClient}, "usages did not match [digital signature key encipherment server auth]"},

		{SignerLegacyUnknown, x509.CertificateRequest{}, []certificatesv1.KeyUsage{"anything"}, ""},
		{"example.com/mine", x509.CertificateRequest{}, nil, `unrecognized signerName: "example.com/mine"`},
	} {
		err := Admits(tt.signer, &tt.req, tt.usages)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s %v %v: %v, want %q", tt.signer, tt.req.Subject, tt.usages, err, tt.want)
		}
	}
}

func TestSign(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	a, err := Open(Config{Dir: t.TempDir(), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	const year = 365 * 24 * time.Hour
	sign := func(spec certificatesv1.CertificateSigningRequestSpec) (*x509.Certificate, error) {
		data, err := a.Sign(&certificatesv1.CertificateSigningRequest{Spec: spec}, year)
		if err != nil {
			return nil, err
		}
		return parseCert(data)
	}
	spec := certificatesv1.CertificateSigningRequestSpec{SignerName: SignerKubeletClient, Usages: []certificatesv1.KeyUsage{asClient, digital}, Request: certificateRequest(t, &x509.CertificateRequest{Subject: nodeName})}
	for asked, want := range map[int32]time.Duration{0: 10 * time.Minute, 60: 10 * time.Minute, 3600: time.Hour, 24 * 3600: 24*time.Hour - backdate, 1 << 30: year - backdate} {
		spec.ExpirationSeconds = &asked
		c, err := sign(spec)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.NotAfter.Sub(now); got != want || !c.NotBefore.Equal(now.Add(-5*time.Minute)) {
			t.Errorf("asked for %d s, lives %v, want %v (from %v)", asked, got, want, c.NotBefore)
		}
		if _, err := c.Verify(x509.VerifyOptions{Roots: a.Pool(), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
			t.Error(err)
		}
		if c.Subject.CommonName != "system:node:a" || c.IsCA || c.KeyUsage != x509.KeyUsageDigitalSignature {
			t.Errorf("%v %v %v", c.Subject, c.IsCA, c.KeyUsage)
		}
	}

	// Nobody gets a CA by asking legacy-unknown for the usage.
	spec = certificatesv1.CertificateSigningRequestSpec{SignerName: SignerLegacyUnknown, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageCertSign, certificatesv1.UsageAny},
		Request: certificateRequest(t, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "ca"},
			ExtraExtensions: []pkix.Extension{{Id: []int{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 3, 1, 1, 0xff}}}})}
	if c, err := sign(spec); err != nil || c.IsCA || !c.BasicConstraintsValid {
		t.Errorf("%v, %v", c, err)
	}
	var refusal *RefusedError
	spec.Usages = []certificatesv1.KeyUsage{"teleport"}
	if _, err := sign(spec); !errors.As(err, &refusal) {
		t.Errorf("got %v", err)
	}
	for _, bad := range [][]byte{nil, []byte("x"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: []byte("x")})} {
		spec.Request = bad
		if _, err := sign(spec); err == nil || errors.As(err, &refusal) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestSignRequest(t *testing.T) {
	a, err := Open(Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	csr := func(signer string, usages ...certificatesv1.KeyUsage) *certificatesv1.CertificateSigningRequest {
		return &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: signer, Usages: usages,
			Request: certificateRequest(t, &x509.CertificateRequest{Subject: nodeName})}}
	}
	if cert, mine, refusal, err := a.SignRequest(csr(SignerKubeletClient, asClient, digital)); len(cert) == 0 || !mine || refusal != "" || err != nil {
		t.Errorf("%q %v %q %v", cert, mine, refusal, err)
	}
	if cert, mine, refusal, err := a.SignRequest(csr(SignerKubeletClient, asServer)); cert != nil || !mine || !strings.HasPrefix(refusal, "usages did not match") || err != nil {
		t.Errorf("%q %v %q %v", cert, mine, refusal, err)
	}
	if cert, mine, refusal, err := a.SignRequest(csr("example.com/mine", asClient)); cert != nil || mine || refusal != "" || err != nil {
		t.Errorf("%q %v %q %v", cert, mine, refusal, err)
	}
	if name, ok := NodeClient(csr(SignerKubeletClient, asClient, digital)); !ok || name != "system:node:a" {
		t.Errorf("%q %v", name, ok)
	}
	for _, c := range []*certificatesv1.CertificateSigningRequest{csr(SignerClient, asClient), csr(SignerKubeletClient, asServer), {Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: SignerKubeletClient}}} {
		if name, ok := NodeClient(c); ok {
			t.Errorf("%v is of node %q", c.Spec.Usages, name)
		}
	}
}

// TestForgedRequest: a request for a key that its sender does not have.
func TestForgedRequest(t *testing.T) {
	block, _ := pem.Decode(certificateRequest(t, &x509.CertificateRequest{Subject: nodeName}))
	block.Bytes[len(block.Bytes)-3] ^= 1
	if _, err := ParseRequest(pem.EncodeToMemory(block)); err == nil {
		t.Error("signature not checked")
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add(certificateRequest(f, &x509.CertificateRequest{Subject: nodeName}))
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if req, err := ParseRequest(data); err == nil && req.CheckSignature() != nil {
			t.Error("not signed")
		}
	})
}
