// Package policy is what a new cluster has before anybody has declared
// anything: its namespaces and priority classes, the default roles and bindings
// of Kubernetes v1.36 and the few that are writ's own, and the way they get
// into the store and stay as they are.
//
// It owns the roles that it names as long as their annotation
// rbac.authorization.kubernetes.io/autoupdate is "true" and Git does not
// declare them. It watches nothing: Ensure runs once at each start.
package policy

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/schema"
)

const aggregateTo = "rbac.authorization.k8s.io/aggregate-to-"

// Objects returns the default roles and bindings, roles first.
func Objects() []schema.Object {
	var out []schema.Object
	for _, r := range append(clusterRoles(), controllerRoles()...) {
		out = append(out, r)
	}
	for _, r := range append(roles(), namespacedControllerRoles()...) {
		out = append(out, r)
	}
	for _, b := range append(clusterRoleBindings(), controllerBindings()...) {
		out = append(out, b)
	}
	for _, b := range append(roleBindings(), namespacedControllerBindings()...) {
		out = append(out, b)
	}
	for _, o := range out {
		o.SetLabels(merged(o.GetLabels(), map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"}))
		o.SetAnnotations(merged(o.GetAnnotations(), map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"}))
	}
	return out
}

// Ground returns what a cluster stands on: its own namespaces and the two
// priority classes of its own parts. They are made when missing and never
// changed after.
func Ground() []schema.Object {
	var out []schema.Object
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease} {
		out = append(out, &corev1.Namespace{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: meta("", name),
		})
	}
	return append(out,
		priorityClass("system-node-critical", 2_000_001_000, "Used for system critical pods that must not be moved from their current node."),
		priorityClass("system-cluster-critical", 2_000_000_000, "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."),
	)
}

func clusterRoles() []*rbacv1.ClusterRole {
	probes := "/livez /readyz /healthz"
	approver := func(signer string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{rule("approve", certificates, "signers", "kubernetes.io/"+signer)}
	}
	return []*rbacv1.ClusterRole{
		clusterRole("cluster-admin", rule("*", "*", "*"), urls("*", "*")),
		clusterRole("system:discovery", urls("get", probes+" /version /version/ /openapi /openapi/* /api /api/* /apis /apis/*")),
		clusterRole("system:monitoring", urls("get", probes+" /livez/* /readyz/* /healthz/* /metrics /metrics/slis /flagz /statusz"), rule("get", core, "nodes/metrics")),
		clusterRole("system:basic-user", rule("create", authorization, "selfsubjectaccessreviews selfsubjectrulesreviews"), rule("create", authentication, "selfsubjectreviews")),
		clusterRole("system:public-info-viewer", urls("get", probes+" /version /version/")),

		aggregated("admin", ""),
		aggregated("edit", "admin"),
		aggregated("view", "edit"),
		part("system:aggregate-to-admin", "admin", adminRules()...),
		part("system:aggregate-to-edit", "edit", editRules()...),
		part("system:aggregate-to-view", "view", viewRules()...),

		clusterRole("system:node", NodeRules()...),
		clusterRole("system:node-problem-detector", rule("get", core, "nodes"), rule("patch", core, "nodes/status"), recordEvents()),
		clusterRole("system:node-bootstrapper", rule("create get list watch", certificates, "certificatesigningrequests")),
		clusterRole("system:auth-delegator", rule("create", authentication, "tokenreviews"), rule("create", authorization, "subjectaccessreviews")),
		clusterRole("system:kube-aggregator", rule(read, core, "endpoints services")),
		clusterRole("system:kube-controller-manager", controllerManagerRules()...),
		clusterRole("system:kube-dns", rule(readWatch, core, "endpoints services")),
		clusterRole("system:persistent-volume-provisioner", volumeProvisionerRules()...),
		clusterRole("system:heapster", rule(read, core, "events namespaces nodes pods"), rule(read, extensions, "deployments")),
		clusterRole("system:certificates.k8s.io:certificatesigningrequests:nodeclient", rule("create", certificates, "certificatesigningrequests/nodeclient")),
		clusterRole("system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", rule("create", certificates, "certificatesigningrequests/selfnodeclient")),
		clusterRole("system:certificates.k8s.io:legacy-unknown-approver", approver("legacy-unknown")...),
		clusterRole("system:certificates.k8s.io:kubelet-serving-approver", approver("kubelet-serving")...),
		clusterRole("system:certificates.k8s.io:kube-apiserver-client-approver", approver("kube-apiserver-client")...),
		clusterRole("system:certificates.k8s.io:kube-apiserver-client-kubelet-approver", approver("kube-apiserver-client-kubelet")...),
		clusterRole("system:volume-scheduler", volumeSchedulerRules()...),
		clusterRole("system:service-account-issuer-discovery", urls("get", "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/")),
		clusterRole("system:kubelet-api-admin", kubeletAPIAdminRules()...),
		clusterRole("system:node-proxier", nodeProxierRules()...),
		clusterRole("system:kube-scheduler", schedulerRules()...),

		clusterRole("writ:viewer", viewerRules()...),
		clusterRole("writ:node", ownNodeRules()...),
		clusterRole("writ:server-bootstrapper", urls("post", "/servers/join")),
	}
}

func clusterRoleBindings() []*rbacv1.ClusterRoleBinding {
	return []*rbacv1.ClusterRoleBinding{
		bindCluster("cluster-admin", "cluster-admin", group(user.SystemPrivilegedGroup)),
		bindCluster("system:monitoring", "system:monitoring", group(user.MonitoringGroup)),
		bindCluster("system:discovery", "system:discovery", group(user.AllAuthenticated)),
		bindCluster("system:basic-user", "system:basic-user", group(user.AllAuthenticated)),
		bindCluster("system:public-info-viewer", "system:public-info-viewer", group(user.AllAuthenticated), group(user.AllUnauthenticated)),
		bindCluster("system:node-proxier", "system:node-proxier", person(user.KubeProxy)),
		bindCluster("system:kube-controller-manager", "system:kube-controller-manager", person(user.KubeControllerManager)),
		bindCluster("system:kube-dns", "system:kube-dns", account("kube-dns")),
		bindCluster("system:kube-scheduler", "system:kube-scheduler", person(user.KubeScheduler)),
		bindCluster("system:volume-scheduler", "system:volume-scheduler", person(user.KubeScheduler)),
		bindCluster("system:node", "system:node"), // nodes have an authorizer of their own
		bindCluster("system:service-account-issuer-discovery", "system:service-account-issuer-discovery", group(serviceaccount.AllServiceAccountsGroup)),

		bindCluster("writ:viewers", "view", group(identity.ViewersGroup)),
		bindCluster("writ:viewers:cluster", "writ:viewer", group(identity.ViewersGroup)),
		bindCluster("writ:nodes", "writ:node", group(user.NodesGroup)),
		bindCluster("writ:server-bootstrapper", "writ:server-bootstrapper", group(identity.ServersGroup)),
		// Machines join by a bootstrap token, and renew their certificates.
		bindCluster("writ:node-bootstrapper", "system:node-bootstrapper", group(identity.JoinersGroup)),
		bindCluster("writ:node-autoapprove-bootstrap", "system:certificates.k8s.io:certificatesigningrequests:nodeclient", group(identity.JoinersGroup)),
		bindCluster("writ:node-autoapprove-certificate-rotation", "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", group(user.NodesGroup)),
	}
}

func roles() []*rbacv1.Role {
	const locks = "create get list update watch"
	return []*rbacv1.Role{
		role("extension-apiserver-authentication-reader", rule(read, core, "configmaps", "extension-apiserver-authentication")),
		role("system::leader-locking-kube-controller-manager", rule(locks, coordination, "leases"), rule(locks, coordination, "leasecandidates")),
		role("system::leader-locking-kube-scheduler", rule(locks, coordination, "leases"), rule(locks, coordination, "leasecandidates")),
	}
}

func roleBindings() []*rbacv1.RoleBinding {
	return []*rbacv1.RoleBinding{
		bind("system::extension-apiserver-authentication-reader", "extension-apiserver-authentication-reader", person(user.KubeControllerManager), person(user.KubeScheduler)),
		bind("system::leader-locking-kube-controller-manager", "system::leader-locking-kube-controller-manager", person(user.KubeControllerManager), account("kube-controller-manager"), account("leader-election-controller")),
		bind("system::leader-locking-kube-scheduler", "system::leader-locking-kube-scheduler", person(user.KubeScheduler), account("kube-scheduler")),
	}
}

func merged(a, b map[string]string) map[string]string {
	out := make(map[string]string, len(a)+len(b))
	for k, v := range a {
		out[k] = v
	}
	for k, v := range b {
		out[k] = v
	}
	return out
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}
