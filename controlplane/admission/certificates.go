package admission

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
)

func isRequest(r *schema.Resource) bool {
	return is(r, "certificates.k8s.io", "certificatesigningrequests")
}

// signerAllowed says whether a user may do something with a signer: by its
// full name, or by its domain ("example.com/*").
func signerAllowed(ctx context.Context, authz authorizer.Authorizer, u user.Info, verb, signer string) bool {
	if authz == nil {
		return false
	}
	domain, _, _ := strings.Cut(signer, "/")
	for _, name := range []string{signer, domain + "/*"} {
		d, _, err := authz.Authorize(ctx, authorizer.AttributesRecord{
			User: u, Verb: verb, Name: name, APIGroup: "certificates.k8s.io", APIVersion: "*", Resource: "signers", ResourceRequest: true,
		})
		if d == authorizer.DecisionAllow && err == nil {
			return true
		}
	}
	return false
}

// CertificateApproval lets approve requests only who may "approve" for their
// signer.
type CertificateApproval struct {
	validates
	Authorizer authorizer.Authorizer
}

var _ registry.Admission = (*CertificateApproval)(nil)

// Handles implements registry.Handler.
func (*CertificateApproval) Handles(verb string, r *schema.Resource, sub string) bool {
	return verb == "update" && sub == "approval" && isRequest(r)
}

// Validate implements registry.Admission. The old request counts: the new one
// may name another signer.
func (p *CertificateApproval) Validate(ctx context.Context, a *registry.Attributes) error {
	csr, ok := a.Old.(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return forbidden(a, fmt.Errorf("expected type CertificateSigningRequest, got: %T", a.Old))
	}
	if !signerAllowed(ctx, p.Authorizer, a.User, "approve", csr.Spec.SignerName) {
		return forbidden(a, fmt.Errorf("user not permitted to approve requests with signerName %q", csr.Spec.SignerName))
	}
	return nil
}

// CertificateSigning lets sign requests only who may "sign" for their signer.
type CertificateSigning struct {
	validates
	Authorizer authorizer.Authorizer
}

var _ registry.Admission = (*CertificateSigning)(nil)

// Handles implements registry.Handler.
func (*CertificateSigning) Handles(verb string, r *schema.Resource, sub string) bool {
	return verb == "update" && sub == "status" && isRequest(r)
}

// Validate implements registry.Admission.
func (p *CertificateSigning) Validate(ctx context.Context, a *registry.Attributes) error {
	old, was := a.Old.(*certificatesv1.CertificateSigningRequest)
	csr, ok := a.Object.(*certificatesv1.CertificateSigningRequest)
	if !was || !ok {
		return forbidden(a, fmt.Errorf("expected type CertificateSigningRequest, got: %T", a.Object))
	}
	if bytes.Equal(old.Status.Certificate, csr.Status.Certificate) && equality.Semantic.DeepEqual(old.Status.Conditions, csr.Status.Conditions) {
		return nil
	}
	if !signerAllowed(ctx, p.Authorizer, a.User, "sign", old.Spec.SignerName) {
		return forbidden(a, fmt.Errorf("user not permitted to sign requests with signerName %q", old.Spec.SignerName))
	}
	return nil
}

// CertificateSubject refuses requests for a client certificate with every
// right: nothing could take it back.
type CertificateSubject struct{ validates }

var _ registry.Admission = (*CertificateSubject)(nil)

// Handles implements registry.Handler.
func (*CertificateSubject) Handles(verb string, r *schema.Resource, sub string) bool {
	return verb == "create" && sub == "" && isRequest(r)
}

// Validate implements registry.Admission.
func (*CertificateSubject) Validate(_ context.Context, a *registry.Attributes) error {
	csr, ok := a.Object.(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return forbidden(a, fmt.Errorf("expected type CertificateSigningRequest, got: %T", a.Object))
	}
	if csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return nil
	}
	req, err := parseRequest(csr.Spec.Request)
	if err != nil {
		return forbidden(a, fmt.Errorf("failed to parse CSR: %v", err)) //nolint:errorlint // shown, not handled
	}
	if slices.Contains(req.Subject.Organization, user.SystemPrivilegedGroup) {
		return forbidden(a, fmt.Errorf("use of %s signer with system:masters group is not allowed", certificatesv1.KubeAPIServerClientSignerName))
	}
	return nil
}

// parseRequest reads a PEM certificate request.
func parseRequest(data []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}
