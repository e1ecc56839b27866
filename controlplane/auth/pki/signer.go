package pki

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/writ-os/writ/controlplane/auth/identity"
)

// The signers of Kubernetes that the cluster's CA stands behind.
const (
	SignerClient        = certificatesv1.KubeAPIServerClientSignerName
	SignerKubeletClient = certificatesv1.KubeAPIServerClientKubeletSignerName
	SignerKubelet       = certificatesv1.KubeletServingSignerName
	SignerLegacyUnknown = "kubernetes.io/legacy-unknown"
)

// ErrUnknownSigner says that a request is for somebody else to sign.
var ErrUnknownSigner = errors.New("unrecognized signerName")

// RefusedError says what a signer does not admit: the message of the condition
// Failed, reason SignerValidationFailure, of a CertificateSigningRequest.
type RefusedError struct{ Reason string }

// Error implements error.
func (e *RefusedError) Error() string { return e.Reason }

func refused(format string, args ...any) error { return &RefusedError{fmt.Sprintf(format, args...)} }

// ParseRequest reads the PEM form of a certificate request, as
// spec.request of a CertificateSigningRequest has it, and checks that it is
// signed by the key it is for.
func ParseRequest(data []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	req, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	if err := req.CheckSignature(); err != nil {
		return nil, fmt.Errorf("unable to verify certificate request signature: %w", err)
	}
	return req, nil
}

// Admits says whether a signer signs a request: nil, ErrUnknownSigner or a
// *RefusedError with upstream's words. Whether it was approved is another
// question.
func Admits(signer string, req *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	switch signer {
	case SignerClient:
		return admitsClient(req, usages)
	case SignerKubeletClient:
		return admitsKubeletClient(req, usages)
	case SignerKubelet:
		return admitsKubelet(req, usages)
	case SignerLegacyUnknown:
		return admitsSubject(req) // never had other rules
	}
	return fmt.Errorf("%w: %q", ErrUnknownSigner, signer)
}

// admitsSubject keeps for the servers themselves what opens every node to them,
// and what gives the keys of the cluster: that comes by a token of an
// administrator's alone.
func admitsSubject(req *x509.CertificateRequest) error {
	for _, group := range []string{identity.KubeletClientsGroup, identity.ServersGroup} {
		if slices.Contains(req.Subject.Organization, group) {
			return refused("subject organization %s is not allowed", group)
		}
	}
	return nil
}

func admitsClient(req *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	if err := admitsSubject(req); err != nil {
		return err
	}
	for _, u := range usages {
		switch u {
		case certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth:
		default:
			return refused("invalid usage for client certificate: %s", u)
		}
	}
	if !slices.Contains(usages, certificatesv1.UsageClientAuth) {
		return refused("missing required usage for client certificate: %s", certificatesv1.UsageClientAuth)
	}
	return nil
}

func admitsKubeletClient(req *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	switch {
	case !slices.Equal(req.Subject.Organization, []string{"system:nodes"}):
		return refused("subject organization is not system:nodes")
	case len(req.DNSNames) > 0:
		return refused("DNS subjectAltNames are not allowed")
	case len(req.EmailAddresses) > 0:
		return refused("Email subjectAltNames are not allowed")
	case len(req.IPAddresses) > 0:
		return refused("IP subjectAltNames are not allowed")
	case len(req.URIs) > 0:
		return refused("URI subjectAltNames are not allowed")
	case !strings.HasPrefix(req.Subject.CommonName, "system:node:"):
		return refused("subject common name does not begin with system:node:")
	}
	return exactly(usages, certificatesv1.UsageClientAuth)
}

func admitsKubelet(req *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	switch {
	case !slices.Equal(req.Subject.Organization, []string{"system:nodes"}):
		return refused("subject organization is not system:nodes")
	case len(req.DNSNames) == 0 && len(req.IPAddresses) == 0:
		return refused("DNS or IP subjectAltName is required")
	case len(req.EmailAddresses) > 0:
		return refused("Email subjectAltNames are not allowed")
	case len(req.URIs) > 0:
		return refused("URI subjectAltNames are not allowed")
	}
	if err := exactly(usages, certificatesv1.UsageServerAuth); err != nil {
		return err
	}
	if !strings.HasPrefix(req.Subject.CommonName, "system:node:") {
		return refused("subject common name does not begin with system:node:")
	}
	return nil
}

// exactly admits "digital signature" and the purpose, and "key encipherment",
// which only RSA keys need.
func exactly(usages []certificatesv1.KeyUsage, purpose certificatesv1.KeyUsage) error {
	with := []certificatesv1.KeyUsage{purpose, certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment}
	slices.Sort(with)
	have := slices.Compact(slices.Sorted(slices.Values(usages)))
	without := slices.DeleteFunc(slices.Clone(with), func(u certificatesv1.KeyUsage) bool { return u == certificatesv1.UsageKeyEncipherment })
	if slices.Equal(have, with) || slices.Equal(have, without) {
		return nil
	}
	return refused("usages did not match %v", with)
}

// Lifetimes of signed certificates.
const (
	// backdate is how far before now a certificate begins, for clocks that lag.
	backdate = 5 * time.Minute
	// minSigned is the shortest life of a certificate.
	minSigned = 10 * time.Minute
	// shortSigned is the life from which on backdate is taken off the end.
	shortSigned = 8 * time.Hour
)

// SignedFor returns how long a certificate lives: what spec.expirationSeconds
// asks for, at least 10 minutes and at most longest.
func SignedFor(expirationSeconds *int32, longest time.Duration) time.Duration {
	if expirationSeconds == nil {
		return longest
	}
	d := time.Duration(*expirationSeconds) * time.Second
	return min(max(d, min(minSigned, longest)), longest)
}

// Sign issues the certificate of an approved CertificateSigningRequest, in PEM
// form. longest is the life of a certificate that asks for none (upstream's
// --cluster-signing-duration, a year). Errors are those of ParseRequest and
// Admits; only a *RefusedError is the request's own fault.
func (a *Authority) Sign(csr *certificatesv1.CertificateSigningRequest, longest time.Duration) ([]byte, error) {
	req, err := ParseRequest(csr.Spec.Request)
	if err != nil {
		return nil, fmt.Errorf("unable to parse csr %q: %w", csr.Name, err)
	}
	if err := Admits(csr.Spec.SignerName, req, csr.Spec.Usages); err != nil {
		return nil, err
	}
	tmpl := &x509.Certificate{
		Subject: req.Subject, DNSNames: req.DNSNames, IPAddresses: req.IPAddresses, EmailAddresses: req.EmailAddresses, URIs: req.URIs,
		BasicConstraintsValid: true, // and no CA: nobody is given the power to sign
	}
	if tmpl.KeyUsage, tmpl.ExtKeyUsage, err = keyUsages(csr.Spec.Usages); err != nil {
		return nil, err
	}
	if csr.Spec.SignerName == SignerKubelet {
		if a, err = a.Kubelet(); err != nil {
			return nil, err
		}
	}
	now, ttl := a.cfg.Now(), SignedFor(csr.Spec.ExpirationSeconds, longest)
	tmpl.NotBefore, tmpl.NotAfter = now.Add(-backdate), now.Add(ttl)
	if ttl >= shortSigned {
		tmpl.NotAfter = tmpl.NotAfter.Add(-backdate)
	}
	if tmpl.NotAfter.After(a.cert.NotAfter) {
		tmpl.NotAfter = a.cert.NotAfter
	}
	if !now.Before(a.cert.NotAfter) {
		return nil, fmt.Errorf("sign %s: the signer has expired: NotAfter=%v", csr.Name, a.cert.NotAfter)
	}
	der, err := a.create(tmpl, req.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", csr.Name, err)
	}
	return encodeCert(der), nil
}

// Year is upstream's default of --cluster-signing-duration.
const Year = 365 * 24 * time.Hour

// SignRequest is Sign for a controller. mine is false for signers that others
// stand behind, refusal says which rule of its signer a request breaks.
func (a *Authority) SignRequest(csr *certificatesv1.CertificateSigningRequest) (cert []byte, mine bool, refusal string, err error) {
	cert, err = a.Sign(csr, Year)
	var r *RefusedError
	switch {
	case errors.Is(err, ErrUnknownSigner):
		return nil, false, "", nil
	case errors.As(err, &r):
		return nil, true, r.Reason, nil
	}
	return cert, true, "", err
}

// NodeServing returns the node that asks for a certificate to serve by, and the
// names and addresses that it wants in it; false for any other request. Nobody
// but the node itself may ask.
func NodeServing(csr *certificatesv1.CertificateSigningRequest) (node string, hosts []string, ok bool) {
	if csr.Spec.SignerName != SignerKubelet || !slices.Contains(csr.Spec.Groups, "system:nodes") {
		return "", nil, false
	}
	req, err := ParseRequest(csr.Spec.Request)
	if err != nil || Admits(SignerKubelet, req, csr.Spec.Usages) != nil || req.Subject.CommonName != csr.Spec.Username {
		return "", nil, false
	}
	hosts = slices.Clone(req.DNSNames)
	for _, ip := range req.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	return strings.TrimPrefix(csr.Spec.Username, "system:node:"), hosts, true
}

// NodeClient returns the name in the subject of a request that is a kubelet's
// for its client certificate, for those who approve them; false for any other.
func NodeClient(csr *certificatesv1.CertificateSigningRequest) (commonName string, ok bool) {
	if csr.Spec.SignerName != SignerKubeletClient {
		return "", false
	}
	req, err := ParseRequest(csr.Spec.Request)
	if err != nil || Admits(SignerKubeletClient, req, csr.Spec.Usages) != nil {
		return "", false
	}
	return req.Subject.CommonName, true
}
