package pki

import (
	"crypto/x509"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/writ-os/writ/controlplane/auth/identity"
)

// TestKubelet: servers that share the cluster's CA agree on that of nodes, which
// proves a node to them and nobody to others.
func TestKubelet(t *testing.T) {
	a, err := Open(Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	keyPEM, err := a.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	b, err := Parse(a.CAPEM(), keyPEM, nil)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := b.NodePool()
	if err != nil {
		t.Fatal(err)
	}
	cert, mine, refusal, err := a.SignRequest(&certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
		SignerName: SignerKubelet, Usages: []certificatesv1.KeyUsage{asServer, digital}, Request: certificateRequest(t, &x509.CertificateRequest{Subject: nodeName, DNSNames: []string{"a"}})}})
	if err != nil || !mine || refusal != "" {
		t.Fatal(mine, refusal, err)
	}
	leaf, err := parseCert(cert)
	if err != nil {
		t.Fatal(err)
	}
	serves := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: "a", KeyUsages: serves}); err != nil {
		t.Errorf("another server does not know the node: %v", err)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: a.Pool(), KeyUsages: serves}); err == nil {
		t.Error("a node is taken for an API server")
	}
	c, err := Open(Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if pool, err = c.NodePool(); err != nil {
		t.Fatal(err)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: serves}); err == nil {
		t.Error("a node of another cluster is believed")
	}
}

// TestOwnGroups: no request, whoever approves it, is for a certificate of what
// servers keep for themselves.
func TestOwnGroups(t *testing.T) {
	for _, signer := range []string{SignerClient, SignerLegacyUnknown} {
		for _, group := range []string{identity.KubeletClientsGroup, identity.ServersGroup} {
			req := &x509.CertificateRequest{}
			req.Subject.CommonName, req.Subject.Organization = "x", []string{"team", group}
			if err := Admits(signer, req, []certificatesv1.KeyUsage{asClient}); err == nil || err.Error() != "subject organization "+group+" is not allowed" {
				t.Errorf("%s, %s: %v", signer, group, err)
			}
		}
	}
}
