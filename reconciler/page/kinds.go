package page

// kindIcons are the symbols of the kinds; the others share one.
var kindIcons = map[string]string{
	"Deployment": "deployment", "ReplicaSet": "replicaset", "ReplicationController": "replicaset", "StatefulSet": "statefulset", "DaemonSet": "daemonset",
	"Pod": "pod", "Container": "container", "Job": "job", "CronJob": "cronjob",
	"Service": "service", "Ingress": "ingress", "IngressClass": "ingress", "EndpointSlice": "endpoints", "Endpoints": "endpoints", "NetworkPolicy": "shield",
	"ConfigMap": "config", "Secret": "secret", "Namespace": "namespace", "Node": "node",
	"PersistentVolumeClaim": "volume", "PersistentVolume": "volume", "StorageClass": "volume", "CSIDriver": "volume", "CSINode": "volume",
	"ServiceAccount": "account", "Role": "role", "ClusterRole": "role", "RoleBinding": "role", "ClusterRoleBinding": "role",
	"HorizontalPodAutoscaler": "scale", "PodDisruptionBudget": "shield", "ResourceQuota": "limit", "LimitRange": "limit", "PriorityClass": "limit",
	"CustomResourceDefinition": "definition", "Repository": "repository", "Commit": "commit", "Cluster": "cluster", "File": "file", "ControllerRevision": "replicaset",
	"APIService": "definition", "ValidatingAdmissionPolicy": "shield", "ValidatingAdmissionPolicyBinding": "shield",
}

func kindIcon(kind string) string {
	if i, ok := kindIcons[kind]; ok {
		return i
	}
	return "object"
}

// shortKinds are the words below a symbol, where the kind itself is too long.
var shortKinds = map[string]string{
	"Deployment": "deploy", "ReplicaSet": "rs", "ReplicationController": "rc", "StatefulSet": "sts", "DaemonSet": "ds", "CronJob": "cronjob",
	"Service": "svc", "Ingress": "ing", "EndpointSlice": "slice", "NetworkPolicy": "netpol", "ConfigMap": "config", "Namespace": "ns",
	"PersistentVolumeClaim": "pvc", "PersistentVolume": "pv", "StorageClass": "sc", "ServiceAccount": "sa", "ClusterRole": "c.role",
	"RoleBinding": "binding", "ClusterRoleBinding": "c.binding", "HorizontalPodAutoscaler": "hpa", "PodDisruptionBudget": "pdb",
	"ResourceQuota": "quota", "LimitRange": "limits", "PriorityClass": "priority", "CustomResourceDefinition": "crd", "ControllerRevision": "rev",
	"Repository": "repo", "Container": "ctr",
}

// shortKind is a kind in at most nine letters, lower case.
func shortKind(kind string) string {
	if s, ok := shortKinds[kind]; ok {
		return s
	}
	b := []byte(kind[:min(9, len(kind))])
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}
