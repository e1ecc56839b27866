package certificates

import (
	"context"
	"fmt"
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
	// Barred says why no node may ever have a certificate for a name or an
	// address: it is a server's, or no machine's. "" it may.
	Barred func(host string) string
}

// ServingApprover approves the certificates that nodes serve logs and exec by.
// Upstream leaves that to the operator of the cluster; here a node gets one for
// the names and addresses that its Node object has, and for no others; never for
// those of a server, nor for those that another node has which lives. What is
// Barred is denied, what may be right later waits.
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
	if why := a.barred(name, hosts); why != "" {
		return controller.Result{}, deny(ctx, a.cfg.Tools, csr, why)
	}
	if foreign(name, hosts, client.CachedList[*corev1.Node](a.cfg.Cache, "")) != "" {
		return controller.Result{RequeueAfter: unknownHost}, nil // the node may say it later
	}
	return controller.Result{}, approve(ctx, a.cfg.Tools, csr, "The names and addresses are those of the node.")
}

// barred is why a request is refused for good; "" it is not.
func (a *ServingApprover) barred(node string, hosts []string) string {
	if a.cfg.Barred == nil {
		return ""
	}
	for _, h := range append([]string{node}, hosts...) {
		if why := a.cfg.Barred(h); why != "" {
			return fmt.Sprintf("No node serves as %s: %s.", h, why)
		}
	}
	return ""
}

// foreign is the first of some names and addresses that is not the node's, or
// that another one has which lives; "": there is none.
func foreign(node string, hosts []string, all []*corev1.Node) string {
	has := func(n *corev1.Node, h string) bool {
		return h == n.Name || slices.ContainsFunc(n.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Address == h })
	}
	for _, h := range hosts {
		own := false
		for _, n := range all {
			switch {
			case n.Name == node:
				own = has(n, h)
			case has(n, h) && lives(n):
				return h
			}
		}
		if !own {
			return h
		}
	}
	return ""
}
