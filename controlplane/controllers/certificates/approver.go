package certificates

import (
	"context"
	"fmt"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/schema"
)

// ApproverConfig is everything an Approver needs from outside.
type ApproverConfig struct {
	controller.Tools
	// Node returns the name in the subject of a request that is a kubelet's for
	// its client certificate; false for any other.
	Node func(csr *certificatesv1.CertificateSigningRequest) (commonName string, ok bool)
	// Allowed says whether the asker may create certificatesigningrequests with
	// the subresource: "nodeclient" or "selfnodeclient".
	Allowed func(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, subresource string) (bool, error)
	// Reserved says why no node may have a name; "" one may.
	Reserved func(node string) string
	// Server says whether a name is that of a server's machine, which has its
	// credentials from the server. May be nil.
	Server func(node string) bool
}

// Approver approves the client certificates of kubelets. A machine that joins
// gets none for a name that is reserved, nor for that of a node which was not
// given up: it would be that node, and read the Secrets of its pods.
type Approver struct{ cfg ApproverConfig }

// NewApprover returns a controller; it starts nothing.
func NewApprover(cfg ApproverConfig) *Approver { return &Approver{cfg} }

var _ controller.Reconciler = (*Approver)(nil)

// Watches says which events wake which requests.
func (a *Approver) Watches() []controller.Watch { return watches() }

// grant is a right, and what is said of a request that is approved by it.
type grant struct{ subresource, message string }

// grants are the rights by which a kubelet's request may be approved, the
// narrowest first, with upstream's words.
func grants(csr *certificatesv1.CertificateSigningRequest, commonName string) []grant {
	all := []grant{{"nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview."}}
	if csr.Spec.Username == commonName {
		all = append([]grant{{"selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview."}}, all...)
	}
	return all
}

// Reconcile looks at one request.
func (a *Approver) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	csr, ok := client.Cached[*certificatesv1.CertificateSigningRequest](a.cfg.Cache, key)
	if !ok || csr.DeletionTimestamp != nil || len(csr.Status.Certificate) > 0 || has(csr, certificatesv1.CertificateApproved, certificatesv1.CertificateDenied) {
		return controller.Result{}, nil
	}
	name, ok := a.cfg.Node(csr)
	if !ok {
		return controller.Result{}, nil
	}
	node := strings.TrimPrefix(name, nodePrefix)
	if a.cfg.Reserved != nil {
		if why := a.cfg.Reserved(node); why != "" {
			return controller.Result{}, deny(ctx, a.cfg.Tools, csr, fmt.Sprintf("No node is called %s: %s.", node, why))
		}
	}
	if csr.Spec.Username != name && a.taken(node) {
		return controller.Result{RequeueAfter: unknownHost}, nil // it may be given up, or be approved by hand
	}
	for _, g := range grants(csr, name) {
		allowed, err := a.cfg.Allowed(ctx, csr, g.subresource)
		if err != nil {
			return controller.Result{}, fmt.Errorf("review access for %s: %w", key, err)
		}
		if allowed {
			return controller.Result{}, approve(ctx, a.cfg.Tools, csr, g.message)
		}
	}
	// Somebody may be given the right later, or approves it by hand.
	return controller.Result{RequeueAfter: time.Minute}, nil
}

// taken says whether a name is a server's, or that of a node which was not given
// up.
func (a *Approver) taken(name string) bool {
	if a.cfg.Server != nil && a.cfg.Server(name) {
		return true
	}
	node, _ := client.Cached[*corev1.Node](a.cfg.Cache, schema.Key{Name: name})
	lease, _ := client.Cached[*coordinationv1.Lease](a.cfg.Cache, schema.Key{Namespace: leaseNamespace, Name: name})
	return taken(node, lease, a.cfg.Now())
}

func approve(ctx context.Context, tools controller.Tools, csr *certificatesv1.CertificateSigningRequest, message string) error {
	return decide(ctx, tools, csr, certificatesv1.CertificateApproved, "AutoApproved", message)
}

func deny(ctx context.Context, tools controller.Tools, csr *certificatesv1.CertificateSigningRequest, message string) error {
	return decide(ctx, tools, csr, certificatesv1.CertificateDenied, "AutoDenied", message)
}

func decide(ctx context.Context, tools controller.Tools, csr *certificatesv1.CertificateSigningRequest, what certificatesv1.RequestConditionType, reason, message string) error {
	next := csr.DeepCopy()
	now := metav1.NewTime(tools.Now())
	next.Status.Conditions = append(next.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: what, Status: corev1.ConditionTrue, Reason: reason, Message: message,
		LastUpdateTime: now, LastTransitionTime: now,
	})
	_, err := client.Update(ctx, tools.Client, next, client.WriteOptions{Subresource: "approval"})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("decide %s: %w", csr.Name, err)
	}
	return nil
}
