// Package auth says who a request is from and whether it is allowed. Who:
// client certificates, a front proxy's headers, bearer tokens of service
// accounts, bootstrap Secrets, OIDC issuers, webhooks and files. Whether: RBAC
// and the Node authorizer, or whatever chain is configured.
//
//	identity   the names of the users and groups that code refers to
//	pki        the cluster's CA, certificates, kubeconfigs, signing requests
//	token      service-account tokens
//	bootstrap  bootstrap tokens, signatures of cluster-info
//	oidc       ID tokens of OpenID Connect providers
//	webhook    asking another server who and whether
//	basic      names and passwords from a file
//	rbac       Roles, ClusterRoles and bindings, aggregation
//	node       what nodes may do
//	abac       a policy file
//	review     access reviews, in the words of authorizers
//	policy     the default roles and bindings
//
// It watches roles and bindings (rbac) and owns the default ones (policy) and
// the folder of the PKI. It promises that nobody is taken for somebody else
// because a credential is malformed, foreign, expired or revoked: such requests
// are refused, not served as anonymous. What is no credential at all for this
// configuration (an Authorization header of a kind that is off, a certificate
// that names nobody) is ignored, as upstream does.
package auth
