// Package auth says who a request is from and whether it is allowed: client
// certificates and service-account tokens in, a user out; RBAC and the Node
// authorizer decide.
//
//	identity  the names of the users and groups that code refers to
//	pki       the cluster's CA, certificates, kubeconfigs
//	token     service-account tokens
//	rbac      Roles, ClusterRoles and bindings
//	node      what nodes may do
//	policy    the default roles and bindings
//
// It watches roles and bindings (rbac) and owns the default ones (policy) and
// the folder of the PKI. It promises that nobody is taken for somebody else
// because a credential is malformed, foreign, expired or revoked: such requests
// are refused, not served as anonymous.
package auth
