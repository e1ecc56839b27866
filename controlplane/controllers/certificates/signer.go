package certificates

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/schema"
)

// SignerConfig is everything a Signer needs from outside.
type SignerConfig struct {
	controller.Tools
	// Sign returns the certificate of an approved request, in PEM form. Of a
	// request that breaks its signer's rules refusal says which; mine is false
	// for signers that others stand behind.
	Sign func(csr *certificatesv1.CertificateSigningRequest) (cert []byte, mine bool, refusal string, err error)
}

// Signer signs approved requests.
type Signer struct{ cfg SignerConfig }

// NewSigner returns a controller; it starts nothing.
func NewSigner(cfg SignerConfig) *Signer { return &Signer{cfg} }

var _ controller.Reconciler = (*Signer)(nil)

// Watches says which events wake which requests.
func (s *Signer) Watches() []controller.Watch { return watches() }

// Reconcile signs one request.
func (s *Signer) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	csr, ok := client.Cached[*certificatesv1.CertificateSigningRequest](s.cfg.Cache, key)
	if !ok || csr.DeletionTimestamp != nil || len(csr.Status.Certificate) > 0 || !has(csr, certificatesv1.CertificateApproved) ||
		has(csr, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed) {
		return controller.Result{}, nil
	}
	cert, mine, refusal, err := s.cfg.Sign(csr)
	if err != nil {
		return controller.Result{}, fmt.Errorf("error auto signing csr: %w", err)
	}
	if !mine {
		return controller.Result{}, nil
	}
	next := csr.DeepCopy()
	if refusal != "" {
		now := metav1.NewTime(s.cfg.Now())
		next.Status.Conditions = append(next.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue, Reason: "SignerValidationFailure", Message: refusal,
			LastUpdateTime: now, LastTransitionTime: now,
		})
	} else {
		next.Status.Certificate = cert
	}
	_, err = client.UpdateStatus(ctx, s.cfg.Client, next)
	if err != nil && !apierrors.IsNotFound(err) {
		return controller.Result{}, fmt.Errorf("update status of %s: %w", key, err)
	}
	return controller.Result{}, nil
}
