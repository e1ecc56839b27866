package certificates

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/schema"
)

// How long requests are kept, as upstream's csrcleaner keeps them.
const (
	keepDecided = time.Hour      // approved and issued, denied, or failed
	keepPending = 24 * time.Hour // nobody has decided, or nobody has signed
)

// Cleaner deletes requests that are over.
type Cleaner struct{ cfg controller.Tools }

// NewCleaner returns a controller; it starts nothing.
func NewCleaner(cfg controller.Tools) *Cleaner { return &Cleaner{cfg} }

var _ controller.Reconciler = (*Cleaner)(nil)

// Watches says which events wake which requests.
func (c *Cleaner) Watches() []controller.Watch { return watches() }

// Reconcile deletes one request when its time has come.
func (c *Cleaner) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	csr, ok := client.Cached[*certificatesv1.CertificateSigningRequest](c.cfg.Cache, key)
	if !ok || csr.DeletionTimestamp != nil {
		return controller.Result{}, nil
	}
	if wait := over(csr).Sub(c.cfg.Now()); wait > 0 {
		return controller.Result{RequeueAfter: wait}, nil
	}
	if err := controller.DeleteSeen(ctx, c.cfg.Client, csr); err != nil {
		return controller.Result{}, fmt.Errorf("delete %s: %w", key, err)
	}
	return controller.Result{}, nil
}

// over is when a request may go: an hour after it was decided, a day after it
// was made, or when its certificate ends.
func over(csr *certificatesv1.CertificateSigningRequest) time.Time {
	at := csr.CreationTimestamp.Add(keepPending)
	issued := len(csr.Status.Certificate) > 0
	for _, c := range csr.Status.Conditions {
		decided := c.Type == certificatesv1.CertificateDenied || c.Type == certificatesv1.CertificateFailed || c.Type == certificatesv1.CertificateApproved && issued
		if end := c.LastUpdateTime.Add(keepDecided); decided && end.Before(at) {
			at = end
		}
	}
	if end, ok := ends(csr.Status.Certificate); ok && end.Before(at) {
		at = end
	}
	return at
}

// ends reads when a certificate ends.
func ends(data []byte) (time.Time, bool) {
	block, _ := pem.Decode(data)
	if block == nil {
		return time.Time{}, false
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return time.Time{}, false
	}
	return cert.NotAfter, true
}
