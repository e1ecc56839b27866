package policy

import rbacv1 "k8s.io/api/rbac/v1"

// viewRules are those of `view`: reading what runs in a namespace, without
// secrets.
func viewRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule(read, core, "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers replicationcontrollers/scale serviceaccounts services services/status"),
		rule(read, core, "bindings limitranges namespaces/status pods/log pods/status replicationcontrollers/status resourcequotas resourcequotas/status"),
		rule(read, core, "namespaces"),
		rule(read, core+" "+events, "events"),
		rule(read, discovery, "endpointslices"),
		rule(read, apps, "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status"),
		rule(read, autoscaling, "horizontalpodautoscalers horizontalpodautoscalers/status"),
		rule(read, batch, "cronjobs cronjobs/status jobs jobs/status"),
		rule(read, extensions, "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses ingresses/status networkpolicies replicasets replicasets/scale replicasets/status replicationcontrollers/scale"),
		rule(read, policyGroup, "poddisruptionbudgets poddisruptionbudgets/status"),
		rule(read, networking, "ingresses ingresses/status networkpolicies"),
		rule(read, resource, "resourceclaims resourceclaims/status resourceclaimtemplates"),
	}
}

// editRules are what `edit` adds to `view`: writing it, and entering pods.
func editRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule(read, core, "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
		rule("impersonate", core, "serviceaccounts"),
		rule(write, core, "pods pods/attach pods/exec pods/portforward pods/proxy"),
		rule("create", core, "pods/eviction"),
		rule(write, core, "configmaps persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets serviceaccounts services services/proxy"),
		rule("create", core, "serviceaccounts/token"),
		rule(write, core+" "+events, "events"),
		rule(write, apps, "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale statefulsets statefulsets/scale"),
		rule(write, autoscaling, "horizontalpodautoscalers"),
		rule(write, batch, "cronjobs jobs"),
		rule(write, extensions, "daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies replicasets replicasets/scale replicationcontrollers/scale"),
		rule(write, policyGroup, "poddisruptionbudgets"),
		rule(write, networking, "ingresses networkpolicies"),
		rule(readWrite, coordination, "leases"),
		rule(write, resource, "resourceclaims resourceclaimtemplates"),
	}
}

// adminRules are what `admin` adds to `edit`: granting rights in a namespace.
func adminRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule("create", authorization, "localsubjectaccessreviews"),
		rule(readWrite, rbacGroup, "rolebindings roles"),
	}
}

// viewerRules are what people get beside `view` until Git says otherwise: the
// objects of the whole cluster. No secrets, no exec, no writes.
func viewerRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule(read, core, "componentstatuses namespaces nodes nodes/status persistentvolumes persistentvolumes/status"),
		rule(read, rbacGroup, "clusterrolebindings clusterroles rolebindings roles"),
		rule(read, storage, "csidrivers csinodes storageclasses volumeattachments"),
		rule(read, scheduling, "priorityclasses"),
		rule(read, networking, "ingressclasses"),
		rule(read, coordination, "leases"),
		rule(read, "node.k8s.io", "runtimeclasses"),
		rule(read, "apiextensions.k8s.io", "customresourcedefinitions"),
		rule(read, "metrics.k8s.io", "nodes pods"),
		rule(read, writ, "*"),
		urls("get", "/servers"),
	}
}
