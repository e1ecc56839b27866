package policy

import rbacv1 "k8s.io/api/rbac/v1"

// NodeRules are what every node may do alike; the Node authorizer divides the
// rest by what runs on the node.
func NodeRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule("create", authentication, "tokenreviews"),
		rule("create", authorization, "localsubjectaccessreviews subjectaccessreviews"),
		rule(read, core, "services"),
		rule("create get list watch", core, "nodes"),
		rule(change, core, "nodes/status"),
		rule(change, core, "nodes"),
		recordEvents(),
		rule(read, core, "pods"),
		rule("create delete", core, "pods"),
		rule(change, core, "pods/status"),
		rule("create", core, "pods/eviction"),
		rule(read, core, "configmaps secrets"),
		rule("get", core, "persistentvolumeclaims persistentvolumes"),
		rule("get", core, "endpoints"),
		rule("create get list watch", certificates, "certificatesigningrequests"),
		rule("create delete get patch update", coordination, "leases"),
		rule("get", storage, "volumeattachments"),
		rule("create", core, "serviceaccounts/token"),
		rule("get patch update", core, "persistentvolumeclaims/status"),
		rule(read, storage, "csidrivers"),
		rule("create delete get patch update", storage, "csinodes"),
		rule(read, "node.k8s.io", "runtimeclasses"),
		rule("get", resource, "resourceclaims"),
		rule("deletecollection", resource, "resourceslices"),
		rule("get", core, "serviceaccounts"),
	}
}

// ownNodeRules are what a node of ours needs besides: it routes, filters and
// resolves names by itself, and updates its operating system.
func ownNodeRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule(read, core, "endpoints namespaces services"),
		rule(read, discovery, "endpointslices"),
		rule(read, networking, "networkpolicies"),
		rule(read, writ, "clusters nodeimages nodepools"),
	}
}

func controllerManagerRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		recordEvents(),
		rule("create", coordination, "leases"),
		rule("get update", coordination, "leases", "kube-controller-manager"),
		rule("create", core, "secrets serviceaccounts"),
		rule("delete", core, "secrets"),
		rule("get", core, "configmaps namespaces secrets serviceaccounts"),
		rule("update", core, "secrets serviceaccounts"),
		rule("create", authentication, "tokenreviews"),
		rule("create", authorization, "subjectaccessreviews"),
		rule(readWatch, "*", "*"),
		rule("create", core, "serviceaccounts/token"),
	}
}

func schedulerRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		recordEvents(),
		rule("create", coordination, "leases"),
		rule("get list update watch", coordination, "leases", "kube-scheduler"),
		rule(readWrite, coordination, "leasecandidates"),
		rule(read, core, "nodes"),
		rule("delete "+read, core, "pods"),
		rule("create", core, "bindings pods/binding"),
		rule(change, core, "pods/status"),
		rule(read, core, "replicationcontrollers services"),
		rule(read, apps+" "+extensions, "replicasets"),
		rule(read, apps, "statefulsets"),
		rule(read, policyGroup, "poddisruptionbudgets"),
		rule(read, core, "persistentvolumeclaims persistentvolumes"),
		rule("create", authentication, "tokenreviews"),
		rule("create", authorization, "subjectaccessreviews"),
		rule(read, storage, "csinodes"),
		rule(read, storage, "volumeattachments"),
		rule(read, core, "namespaces"),
		rule(read, storage, "csidrivers"),
		rule(read, storage, "csistoragecapacities"),
		rule(read, resource, "deviceclasses"),
		rule(read+" "+change, resource, "resourceclaims"),
		rule(read+" "+change, resource, "resourceclaims/status"),
		rule("update", core, "pods/finalizers"),
		rule(read, resource, "resourceslices"),
		rule("create delete", resource, "resourceclaims"),
		rule(change, resource, "resourceclaims/binding"),
	}
}

func volumeSchedulerRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule(read+" "+change, core, "persistentvolumes"),
		rule(read, storage, "storageclasses"),
		rule(read+" "+change, core, "persistentvolumeclaims"),
	}
}

func nodeProxierRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule(readWatch, core, "endpoints services"),
		rule(read, core, "nodes"),
		recordEvents(),
		rule(readWatch, networking, "servicecidrs"),
		rule(readWatch, discovery, "endpointslices"),
	}
}

func volumeProvisionerRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule("create delete "+read, core, "persistentvolumes"),
		rule("update "+read, core, "persistentvolumeclaims"),
		rule(read, storage, "storageclasses"),
		rule("watch", core, "events"),
		recordEvents(),
	}
}

func kubeletAPIAdminRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule(read, core, "nodes"),
		rule("proxy", core, "nodes"),
		rule("*", core, "nodes/log nodes/metrics nodes/proxy nodes/stats"),
		rule("*", core, "nodes/configz nodes/healthz nodes/pods"),
	}
}
