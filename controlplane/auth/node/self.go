package node

import (
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// pod decides about pods: a node sees those that are bound to it, writes their
// status, and makes and deletes its mirror pods.
func (a *Authorizer) pod(node string, attrs authorizer.Attributes) string {
	switch attrs.GetSubresource() {
	case "":
	case "status":
		if oneOf(attrs.GetVerb(), "update", "patch") {
			return "" // which pod's, NodeRestriction knows
		}
		return "can only update or patch the status of pods"
	case "eviction":
		if attrs.GetVerb() == "create" {
			return ""
		}
		return "can only create pod evictions"
	default:
		return "can only write the status and evictions of pods"
	}
	switch attrs.GetVerb() {
	case "create", "delete":
		return "" // mirror pods of its own: NodeRestriction
	case "get":
		pod, ok := client.Cached[*corev1.Pod](a.cache, schema.Key{Namespace: attrs.GetNamespace(), Name: attrs.GetName()})
		if !ok || pod.Spec.NodeName != node {
			return unrelated(node)
		}
		return ""
	case "list", "watch":
		if selects(attrs, "spec.nodeName", node) {
			return ""
		}
		return "can only list/watch pods with spec.nodeName field selector"
	}
	return "can only read, create and delete pods"
}

// node decides about Nodes. Unlike a kubelet, a node of ours routes to the pods
// of the others by itself and reads all Nodes; it writes its own.
func (a *Authorizer) node(node string, attrs authorizer.Attributes) string {
	switch attrs.GetVerb() {
	case "get", "list", "watch":
		if attrs.GetSubresource() == "" || attrs.GetName() == node {
			return ""
		}
	case "create":
		if attrs.GetSubresource() == "" {
			return "" // with its own name: NodeRestriction
		}
	case "update", "patch":
		if attrs.GetName() == node && oneOf(attrs.GetSubresource(), "", "status") {
			return ""
		}
		return "can only write the node object of the same name"
	}
	return "can only read nodes, and create, update or patch its own"
}

// selects says whether a field selector demands that a field has a value.
func selects(attrs authorizer.Attributes, field, value string) bool {
	reqs, err := attrs.GetFieldSelector()
	if err != nil {
		return false
	}
	for _, r := range reqs {
		if r.Field == field && r.Value == value && (r.Operator == selection.Equals || r.Operator == selection.DoubleEquals) {
			return true
		}
	}
	return false
}
