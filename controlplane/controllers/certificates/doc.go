// Package certificates approves, signs and clears away
// CertificateSigningRequests.
//
// Three controllers, each of which watches CertificateSigningRequests: the
// Approver approves the client certificates of kubelets whose asker may have
// one, the Signer writes the certificates of approved requests to the signers
// of the cluster's CA, and the Cleaner deletes what nobody needs any more. They
// own the conditions Approved (AutoApproved), Denied (AutoDenied) and Failed
// (SignerValidationFailure), and status.certificate. They promise that nothing
// is signed that was not approved, nor for a signer that is not the cluster's,
// and that no machine becomes, by a token, a node that others are, or serves as
// a server.
package certificates

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/schema"
)

func requests() *schema.Resource {
	return schema.ResourceFor[*certificatesv1.CertificateSigningRequest]()
}

func watches() []controller.Watch { return []controller.Watch{{Resource: requests()}} }

// has says whether a condition of a request is true.
func has(csr *certificatesv1.CertificateSigningRequest, types ...certificatesv1.RequestConditionType) bool {
	for _, c := range csr.Status.Conditions {
		for _, t := range types {
			if c.Type == t && c.Status != corev1.ConditionFalse {
				return true
			}
		}
	}
	return false
}
