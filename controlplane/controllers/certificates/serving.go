package certificates

import (
	"context"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/schema"
)

// ServingConfig is everything a ServingApprover needs from outside.
type ServingConfig struct {
	controller.Tools
	// Node returns the node that asks for a certificate to serve by, with the
	// names and addresses it wants in it; false for any other request.
	Node func(csr *certificatesv1.CertificateSigningRequest) (node string, hosts []string, ok bool)
}

// ServingApprover approves the certificates that nodes serve logs and exec by.
// Upstream leaves that to the operator of the cluster; here a node gets one for
// the names and addresses that its Node object has, and for no others.
type ServingApprover struct{ cfg ServingConfig }

// NewServingApprover returns a controller; it starts nothing.
func NewServingApprover(cfg ServingConfig) *ServingApprover { return &ServingApprover{cfg} }

var _ controller.Reconciler = (*ServingApprover)(nil)

// Watches says which events wake which requests.
func (a *ServingApprover) Watches() []controller.Watch { return watches() }

// unknownHost is how soon a request is looked at again whose node has not said
// yet that it has the address.
const unknownHost = 5 * time.Second

// Reconcile looks at one request.
func (a *ServingApprover) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	csr, ok := client.Cached[*certificatesv1.CertificateSigningRequest](a.cfg.Cache, key)
	if !ok || csr.DeletionTimestamp != nil || len(csr.Status.Certificate) > 0 || has(csr, certificatesv1.CertificateApproved, certificatesv1.CertificateDenied) {
		return controller.Result{}, nil
	}
	name, hosts, ok := a.cfg.Node(csr)
	if !ok {
		return controller.Result{}, nil
	}
	node, ok := client.Cached[*corev1.Node](a.cfg.Cache, schema.Key{Name: name})
	if !ok || foreign(node, hosts) != "" {
		return controller.Result{RequeueAfter: unknownHost}, nil // the node may say it later
	}
	return controller.Result{}, approve(ctx, a.cfg.Tools, csr, "The names and addresses are those of the node.")
}

// foreign is the first of some names and addresses that is not the node's; "":
// all are.
func foreign(node *corev1.Node, hosts []string) string {
	for _, h := range hosts {
		if h != node.Name && !slices.ContainsFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Address == h }) {
			return h
		}
	}
	return ""
}
